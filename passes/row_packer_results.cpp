// From packed rows to values that have none: pooling, first rows, and rows put back in their places.
#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/expand.h"
#include "passes/bias_program.h"
#include "passes/row_packer.h"

namespace anydim::passes {

using namespace ir;

ValueId RowPacker::plain(ValueId value) {
  if (const auto found = plain_.find(value); found != plain_.end()) return found->second;
  const Binding* binding = definition(value);
  if (binding == nullptr)
    throw CannotPack{fmt::format("input %{} is read whole, with the rows that take no part", padded_.values[value].name)};
  const ValueId result = plain_binding(*binding, value);
  plain_[value] = result;
  return result;
}

ValueId RowPacker::plain_binding(const Binding& binding, ValueId value) {
  const bool reads_rows = std::any_of(binding.operands.begin(), binding.operands.end(),
                                      [&](ValueId operand) { return operand != no_value && holds_rows(operand); });
  if (reads_rows) {
    if (binding.op == Op::reduce_sum) return reduce_rows(binding);
    if (binding.op == Op::gather || binding.op == Op::strided_slice) return first_rows(binding);
    refuse(binding, "makes something of rows that hidden ones may change");
  }
  if (!binding.blocks.empty() || info(binding.op).has(traits::control)) refuse(binding, "is not looked into");
  Binding copy = binding;
  for (ValueId& operand : copy.operands)
    if (operand != no_value) operand = plain(operand);
  for (Dim& dim : copy.dims)
    for (const DimLeaf& leaf : dim.leaves())
      if (!leaf.is_symbol()) refuse(binding, "has a size that is read from a tensor");
  for (ValueId& result : copy.results) {
    const ValueId made = made_.add_value(padded_.values[result].name);
    plain_[result] = made;
    result = made;
  }
  made_.body.bindings.push_back(std::move(copy));
  return plain_.at(value);
}

// A sum over the rows of each sequence whose hidden rows are 0 is the sum over the others.
ValueId RowPacker::reduce_rows(const Binding& binding) {
  const ValueId source = binding.operands[0];
  const RowAxes axes = *row_axes(source);
  const auto over = normalised_axes(binding, type(source).rank());
  if (axes.merged() || !axes.leading() || over != std::vector{axes.sequence}) refuse(binding, "sums rows of several sequences");
  if (!zero_where_hidden(source))
    refuse(binding, fmt::format("sums rows of %{} that are not provably 0 where hidden", padded_.values[source].name));
  const ValueId sums = add(Op::segment_sum, {packed(source), parameter(&PackingPlan::offsets, "offsets", {batch_ + 1})}, {}, binding);
  if (integer_attribute(binding, "keepdims") == 0) return sums;
  return add(Op::expand_dims, {sums}, {{"axes", std::vector<std::int64_t>{1}}}, binding);
}

// x[:, 0] or x[:, 0:1]: a row of every sequence, which the run must find among those that take part.
ValueId RowPacker::first_rows(const Binding& binding) {
  const ValueId source = binding.operands[0];
  const auto axes = row_axes(source);
  if (!axes || axes->merged() || !axes->leading()) refuse(binding, "picks among rows");
  bool first = false, keeps = false;
  const auto along_sequence = [&](std::int64_t axis) { return axis == 1 || axis + static_cast<std::int64_t>(type(source).rank()) == 1; };
  if (binding.op == Op::gather) {
    const Binding* index = definition(binding.operands[1]);
    if (index != nullptr && index->op == Op::constant && along_sequence(integer_attribute(binding, "axis"))) {
      const Tensor& number = tensor_attribute(*index, "value");
      first = number.elements() == 1 && number.rank() <= 1 && number.integer_at(0) == 0;
      keeps = number.rank() == 1;
    }
  } else {
    const auto& starts = integers_attribute(binding, "starts");
    const auto& ends = integers_attribute(binding, "ends");
    const bool one_axis = has_attribute(binding, "axes") && integers_attribute(binding, "axes").size() == 1;
    first = one_axis && along_sequence(integers_attribute(binding, "axes")[0]) && starts == std::vector<std::int64_t>{0} &&
            ends == std::vector<std::int64_t>{1};
    keeps = true;
  }
  if (!first) refuse(binding, "picks other rows than the first of each sequence");
  plan_.first_rows = true;
  const ValueId offsets = parameter(&PackingPlan::offsets, "offsets", {batch_ + 1});
  const ValueId starts =
      add(Op::strided_slice, {offsets}, {{"starts", std::vector<std::int64_t>{0}}, {"ends", std::vector<std::int64_t>{-1}}}, binding);
  const ValueId rows = add(Op::gather, {packed(source), starts}, {{"axis", std::int64_t{0}}}, binding);
  return keeps ? add(Op::expand_dims, {rows}, {{"axes", std::vector<std::int64_t>{1}}}, binding) : rows;
}

bool RowPacker::zero_where_hidden(ValueId value) const {
  const auto axes = row_axes(value);
  if (!axes) return false;
  const Dims& dims = type(value).dims;
  const Dim batch = batch_symbol(dims.size());
  Dims index;
  std::vector<IndexSymbol> symbols{{batch, batch_}, {row_symbol(), sequence_}};
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis == axes->batch || axis == axes->sequence) {
      index.push_back(axes->merged() ? batch * sequence_ + row_symbol() : axis == axes->batch ? batch : row_symbol());
      continue;
    }
    symbols.push_back({batch_symbol(axis), dims[axis]});
    index.push_back(batch_symbol(axis));
  }
  try {
    ElementProgram element;
    build_element(element, padded_, padded_.body, value, index, symbols);
    const ScalarStep last = fold(element, takes_part(mask_, padded_, {batch, row_symbol()}, false)).program.steps.back();
    return last.kind == ScalarStep::Kind::Constant && last.real == 0 && last.integer == 0;
  } catch (const NoLoopForm&) {
    return false;
  }
}

RowAxes RowPacker::require_leading(ValueId result) const {
  const RowAxes axes = *row_axes(result);
  if (!axes.leading())
    throw CannotPack{fmt::format("batch and sequence are not the first dims of result %{}", padded_.values[result].name)};
  return axes;
}

ValueId RowPacker::unpacked(ValueId value) {
  const RowAxes axes = require_leading(value);
  const Binding like{.results = {value}, .source = definition(value) != nullptr ? definition(value)->source : ""};
  const Dims& dims = type(value).dims;
  const Dim slots = batch_ * sequence_;
  const ValueId places = parameter(&PackingPlan::places, "places", {slots});
  const auto number = [&](DType dtype) {
    Tensor zero(dtype, {});
    return add(Op::constant, {}, {{"value", std::move(zero)}}, like);
  };
  const ValueId zero = number(DType::I64);
  const ValueId rows = add(Op::gather, {packed(value), add(Op::max, {places, zero}, {}, like)}, {{"axis", std::int64_t{0}}}, like);
  Dims one_each{slots};
  one_each.resize(axes.merged() ? dims.size() : dims.size() - 1, Dim(1));
  const ValueId hidden = reshaped(add(Op::less, {places, zero}, {}, like), one_each, like);
  const ValueId kept = add(Op::where, {hidden, number(type(value).dtype), rows}, {}, like);
  return reshaped(kept, dims, like);
}

}  // namespace anydim::passes
