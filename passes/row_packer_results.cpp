// From packed rows to values that have none: pooling, first rows, and rows put back in their places.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/expand.h"
#include "ir/scalar.h"
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

// Elementwise ops and views between the mask and the value; constants of one element beside them.
std::optional<double> RowPacker::number_where_hidden(ValueId value) const {
  if (value == plan_.mask) return static_cast<double>(1 - plan_.kept);
  const Binding* binding = definition(value);
  if (binding == nullptr) return std::nullopt;
  if (binding->op == Op::constant) {
    const Tensor& tensor = tensor_attribute(*binding, "value");
    if (tensor.elements() != 1) return std::nullopt;
    return is_float(tensor.dtype()) ? tensor.real_at(0) : static_cast<double>(tensor.integer_at(0));
  }
  const OpInfo& row = info(binding->op);
  const bool view =
      row.has(traits::reshapes) || binding->op == Op::broadcast_to || binding->op == Op::dyn_broadcast_to || binding->op == Op::transpose;
  if (view) return number_where_hidden(binding->operands[0]);
  std::vector<double> operands;
  for (const ValueId operand : binding->operands) {
    const auto number = number_where_hidden(operand);
    if (!number) return std::nullopt;
    operands.push_back(*number);
  }
  const ScalarOp op{.op = binding->op};
  switch (binding->op) {
    case Op::cast:
      return type(value).dtype == DType::Bool ? (operands[0] != 0 ? 1.0 : 0.0)
             : is_float(type(value).dtype)    ? operands[0]
                                              : std::trunc(operands[0]);
    case Op::logical_not: return operands[0] == 0 ? 1 : 0;
    case Op::logical_and: return operands[0] != 0 && operands[1] != 0 ? 1 : 0;
    case Op::logical_or: return operands[0] != 0 || operands[1] != 0 ? 1 : 0;
    case Op::where: return operands[operands[0] != 0 ? 1 : 2];
    case Op::equal:
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal: return apply_comparison<double>(op, operands[0], operands[1]) ? 1 : 0;
    case Op::add:
    case Op::sub:
    case Op::mul: return apply_real<double>(op, operands[0], operands[1]);
    case Op::neg:
    case Op::abs: return apply_real<double>(op, operands[0], operands[0]);
    default: return std::nullopt;
  }
}

bool RowPacker::zero_where_hidden(ValueId value) const {
  if (holds_rows(value) && number_where_hidden(value) == 0) return true;
  if (definition(value) == nullptr) return false;
  const Binding& binding = *definition(value);
  const auto operand = [&](std::size_t i) { return holds_rows(binding.operands[i]) && zero_where_hidden(binding.operands[i]); };
  if (info(binding.op).has(traits::reshapes)) return operand(0);
  switch (binding.op) {
    // Times 0 is 0 for what a model computes of ordinary numbers; infinities in hidden rows would be NaN there.
    case Op::mul:
    case Op::logical_and: return operand(0) || operand(1);
    case Op::broadcast_to:
    case Op::dyn_broadcast_to:
    case Op::transpose:
    case Op::neg:
    case Op::abs:
    case Op::cast: return operand(0);
    // where(hidden, 0, x): chosen by the mask itself.
    case Op::where: {
      const auto condition = number_where_hidden(binding.operands[0]);
      if (!condition) return operand(1) && operand(2);
      const ValueId chosen = binding.operands[*condition != 0 ? 1 : 2];
      return number_where_hidden(chosen) == 0 || (holds_rows(chosen) && zero_where_hidden(chosen));
    }
    default: return false;
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
