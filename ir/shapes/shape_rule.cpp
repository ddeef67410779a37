#include "ir/shapes/shape_rule.h"

#include <fmt/format.h>

#include "ir/dims/assumed_extents.h"
#include "ir/shapes/shape_rules.h"

namespace anydim::ir {

void assertion_rule(RuleContext& context) {
  context.expect(context.dtype(0) == DType::Bool, 0, "a bool tensor");
}
void control_flow_rule(RuleContext&) {
  internal_error("control flow is inferred by ir/shapes/infer");
}

namespace {

void apply(RuleContext& context) {
  switch (context.binding.op) {
#define ANYDIM_OP(name, text, minimum, maximum, results, rule, ...) \
  case Op::name: return rule##_rule(context);
#include "ir/ops.def"
#undef ANYDIM_OP
  }
  internal_error("an op is a row of ir/ops.def");
}

// A few passes suffice: simplification may open new chances, but dims are small.
void simplify_results(RuleContext& context) {
  auto simplify_dim = [&](Dim& dim) {
    if (dim.kind() != Dim::Kind::Constant && dim.kind() != Dim::Kind::Symbol)
      dim = simplify(dim, context.symbols);
  };
  for (Type& type : context.result.types)
    for (Dim& dim : type.tensor.dims) simplify_dim(dim);
  for (Count& count : context.result.counts) simplify_dim(count.bound);
  for (ShapeData& shape_data : context.result.shape_data)
    if (shape_data)
      for (Dim& dim : *shape_data) simplify_dim(dim);
}

// Dims that overflow or grow too large while a rule computes with them know neither node nor model;
// what a model makes overflow is malformed.
[[noreturn]] void name_place(const Function& function, const Binding& binding, const Error& error) {
  const std::string place = describe(function, binding);
  if (std::string_view(error.what()).starts_with(place) || error.kind() == ErrorKind::Internal)
    throw error;
  throw Error(error.kind() == ErrorKind::Inputs ? ErrorKind::Malformed : error.kind(), "{}: {}",
              place, error.what());
}

}  // namespace

RuleResult apply_shape_rule(const Function& function, const Binding& binding,
                            std::span<const OperandFacts> operands, SymbolTable& symbols) {
  RuleContext context(function, binding, operands, symbols);
  const OpInfo& op = info(binding.op);
  const auto given = static_cast<int>(operands.size());
  if (given < op.minimum_operands || (op.maximum_operands >= 0 && given > op.maximum_operands)) {
    const std::string expected =
        op.maximum_operands < 0 ? fmt::format("at least {}", op.minimum_operands)
        : op.minimum_operands == op.maximum_operands
            ? fmt::format("{}", op.minimum_operands)
            : fmt::format("{} to {}", op.minimum_operands, op.maximum_operands);
    context.malformed("expected {} operands, got {}", expected, given);
  }
  try {
    AssumedExtents assumed(symbols);
    for (const OperandFacts& operand : operands) {
      if (operand.type == nullptr || !operand.type->is_tensor()) continue;
      for (const Dim& dim : operand.type->tensor.dims) assumed.add(dim);
    }
    apply(context);
    simplify_results(context);
  } catch (const Error& error) {
    name_place(function, binding, error);
  }
  return std::move(context.result);
}

}  // namespace anydim::ir
