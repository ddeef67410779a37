#include <fmt/format.h>

#include <algorithm>

#include "ir/shapes/shape_rules.h"

namespace anydim::ir {

void check_shape_rule(RuleContext& context) {
  const TensorType& operand = context.tensor(0);
  const std::vector<Dim>& demanded = context.binding.dims;
  if (demanded.size() != operand.rank()) {
    context.malformed("{} demanded dims for {} of rank {}", demanded.size(),
                      context.operand_text(0), operand.rank());
  }
  for (std::size_t i = 0; i < demanded.size(); ++i) {
    // A symbol that nothing bound before is bound here.
    const bool opens = demanded[i].kind() == Dim::Kind::Symbol &&
                       !context.symbols.contains(demanded[i].leaf().symbol);
    if (opens) context.symbols.declare(demanded[i].leaf().symbol);
    else context.require_dim(Relation::Equal, 0, i, demanded[i]);
  }
  context.add_result(operand.dtype, demanded, context.shape_data(0));
}

void check_rule(RuleContext& context) {
  context.result.preconditions.push_back(precondition_of(context.binding));
}

void bind_rule(RuleContext& context) {
  context.expect(is_integer(context.dtype(0)) && context.tensor(0).rank() == 0, 0,
                 "an integer tensor of rank 0");
  const std::vector<Dim>& dims = context.binding.dims;
  if (dims.size() != 2 || dims[0].kind() != Dim::Kind::Symbol)
    context.malformed("expected a symbol and its upper bound");
  SymbolInfo opened = context.symbols.info(dims[0].leaf());
  opened.high = std::min(opened.high, bounds(dims[1], context.symbols).high);
  if (!opened.below && !dims[1].mentions(dims[0].leaf()))
    opened.below = info_of({{}, dims[1]}, context.symbols).below;
  context.symbols.declare(dims[0].leaf().symbol, opened);
}

// Types are of the value before dims are dropped: nothing but the caller reads it after.
void drop_ones_rule(RuleContext& context) {
  const TensorType& operand = context.tensor(0);
  if (context.has(1)) {
    const TensorType& ones = context.tensor(1);
    const auto rank = static_cast<std::int64_t>(operand.rank());
    context.expect(
        ones.dtype == DType::I64 && ones.rank() == 1 && ones.dims[0].constant() == rank, 1,
        fmt::format("an i64 vector of {}, the rank of {}", rank, context.operand_text(0)));
  }
  context.add_result(operand.dtype, operand.dims, context.shape_data(0));
}

}  // namespace anydim::ir
