// From packed rows to values that have none: pooling, first rows, and rows put back in their
// places.
#include <fmt/format.h>

#include <algorithm>

#include "ir/expand.h"
#include "passes/bias_program.h"
#include "passes/quantised_range.h"
#include "passes/row_packer.h"

namespace anydim::passes {

using namespace ir;

ValueId RowPacker::plain(ValueId value) {
  if (const auto found = plain_.find(value); found != plain_.end()) return found->second;
  const Binding* binding = definition(value);
  if (binding == nullptr)
    throw CannotPack{fmt::format("input %{} is read whole, with the rows that take no part",
                                 padded_.values[value].name)};
  const ValueId result = plain_binding(*binding, value);
  plain_[value] = result;
  return result;
}

ValueId RowPacker::plain_binding(const Binding& binding, ValueId value) {
  const bool reads_rows =
      std::any_of(binding.operands.begin(), binding.operands.end(),
                  [&](ValueId operand) { return operand != no_value && holds_rows(operand); });
  // Sums that see no hidden entry need no padded rows, also where the rows are all there is.
  const bool as_given = reads_rows && is_made_of_inputs(value) &&
                        !(binding.op == Op::reduce_sum &&
                          number_where_hidden(binding.operands[0]) == std::optional<double>(0));
  if (reads_rows && !as_given) {
    switch (binding.op) {  // NOLINT: the others are not reductions
      case Op::reduce_sum:
      case Op::reduce_mean:
      case Op::reduce_max:
      case Op::reduce_min: return reduce_rows(binding);
      default: break;
    }
    if (binding.op == Op::strided_slice || picks_first_rows(binding)) return first_rows(binding);
    if (binding.op == Op::gather || binding.op == Op::gather_nd) return picked_rows(binding);
    refuse(binding, "makes something of rows that hidden ones may change");
  }
  if (!binding.blocks.empty() ||
      (info(binding.op).has(traits::control) && binding.op != Op::drop_ones))
    refuse(binding, "is not looked into");
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

// What is reduced over the rows of each sequence where hidden rows are one number: sums and means
// of rows that are 0 there, and the largest (smallest) row where that number is chosen for hidden
// ones and no row that takes part is below (above) it.
ValueId RowPacker::reduce_rows(const Binding& binding) {
  const ValueId source = binding.operands[0];
  const RowAxes axes = *row_axes(source);
  const auto over = normalised_axes(binding, type(source).rank());
  const bool keeps = integer_attribute(binding, "keepdims") != 0,
             largest = binding.op == Op::reduce_max, smallest = binding.op == Op::reduce_min;
  const std::string& name = padded_.values[source].name;
  if (!keeps && is_quantised_range(padded_, padded_.body, binding)) {
    // A text is then quantised as it would be without the others' padding.
    if (form_ == PackedForm::Exact)
      refuse(binding, fmt::format("takes the range by which %{} is quantised from hidden rows too; "
                                  "--masked-rows zero takes it from the others alone",
                                  name));
    plan_.ranges_of_kept_rows = true;
    plan_.reductions.insert(binding.results[0]);
    return add(binding.op, {packed(source)}, {{"keepdims", std::int64_t{0}}}, binding);
  }
  if (axes.merged() || !axes.leading()) refuse(binding, "sums rows of several sequences");
  const bool all = over == std::vector{axes.batch, axes.sequence} && binding.op == Op::reduce_sum;
  if (!all && over != std::vector{axes.sequence}) refuse(binding, "sums rows of several sequences");
  const std::optional<double> hidden = number_where_hidden(source);
  const ValueId offsets = parameter(&PackingPlan::offsets, "offsets", {batch_ + 1});
  ValueId result = no_value;
  if (largest || smallest) {
    const ValueRange range = ranges(0).of(source).range;
    const bool chosen = definition(source) != nullptr && definition(source)->op == Op::where;
    if (!hidden || !chosen || (largest ? range.low < *hidden : range.high > *hidden))
      refuse(binding, fmt::format("compares rows of %{} that hidden ones may change", name));
    const ValueId found =
        add(largest ? Op::segment_max : Op::segment_min, {packed(source), offsets}, {}, binding);
    result = add(largest ? Op::max : Op::min, {found, number(type(source).dtype, *hidden, binding)},
                 {}, binding);
  } else {
    if (hidden != 0.0)
      refuse(binding, fmt::format("sums rows of %{} that are not provably 0 where hidden", name));
    plan_.reductions.insert(binding.results[0]);
    if (all) {
      const std::vector<std::int64_t> tokens{0};
      result = add(Op::reduce_sum, {packed(source)}, {{"axes", tokens}}, binding);
      return keeps ? add(Op::expand_dims, {result}, {{"axes", std::vector<std::int64_t>{0, 1}}},
                         binding)
                   : result;
    }
    result = add(Op::segment_sum, {packed(source), offsets}, {}, binding);
    if (binding.op == Op::reduce_mean) {
      const ValueId rows = add(Op::cast, {add(Op::dim, {}, {}, binding, {sequence_})},
                               {{"to", type(source).dtype}}, binding);
      result = add(Op::div, {result, rows}, {}, binding);
    }
  }
  return keeps ? add(Op::expand_dims, {result}, {{"axes", std::vector<std::int64_t>{1}}}, binding)
               : result;
}

// How many of something come before each row, as models count positions from ids: over all packed
// rows, less what came before the row's sequence. Where hidden rows come after those that take part
// they are not counted.
ValueId RowPacker::count_rows(const Binding& binding, const RowAxes& axes) {
  const TensorType& of = type(binding.operands[0]);
  if (axes.merged() || !axes.leading() || axis_from_front(binding, of.rank()) != axes.sequence ||
      is_float(of.dtype) || integer_attribute(binding, "reverse") != 0)
    refuse(binding, "works across rows");
  plan_.leading_rows = true;
  const auto sums = [&](std::int64_t exclusive) {
    return add(Op::cumulative_sum, {packed(binding.operands[0])},
               {{"axis", std::int64_t{0}}, {"exclusive", exclusive}, {"reverse", std::int64_t{0}}},
               binding);
  };
  const ValueId offsets = parameter(&PackingPlan::offsets, "offsets", {batch_ + 1}),
                sequences = parameter(&PackingPlan::sequences, "sequences", {tokens_});
  const Attributes first{{"axis", std::int64_t{0}}};
  const ValueId before = add(
      Op::gather, {sums(1), add(Op::gather, {offsets, sequences}, first, binding)}, first, binding);
  return add(Op::sub, {sums(integer_attribute(binding, "exclusive")), before}, {}, binding);
}

// Numbers by which models find a row of each sequence: of the ids as they are given, hidden ones
// too, so that they are the model's own.
bool RowPacker::is_made_of_inputs(ValueId value) const {
  if (form_ == PackedForm::Ragged) return false;
  std::set<ValueId> seen;
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    if (next == no_value || !seen.insert(next).second) continue;
    if (is_float(type(next).dtype)) return false;
    const Binding* binding = definition(next);
    if (binding == nullptr) continue;
    if (!binding->blocks.empty() || info(binding->op).has(traits::control)) return false;
    open.insert(open.end(), binding->operands.begin(), binding->operands.end());
  }
  return true;
}

// Rows by their numbers, which only the run tells. Where one of them is hidden the call takes the
// padded way: what the packed program picks in its place is of no matter.
ValueId RowPacker::picked_rows(const Binding& binding) {
  const ValueId source = binding.operands[0];
  const auto axes = row_axes(source);
  if (form_ == PackedForm::Ragged || !axes || !axes->leading() || holds_rows(binding.operands[1]))
    refuse(binding, "picks among rows");
  const std::size_t last_axis = axes->sequence;
  if (binding.op == Op::gather) {
    if (axis_from_front(binding, type(source).rank()) != last_axis)
      refuse(binding, "picks among sequences");
  } else {
    const TensorType& tuples = type(binding.operands[1]);
    const Dim picked = tuples.dims.back() + integer_attribute(binding, "batch_dims");
    if (!picked.is_constant(static_cast<std::int64_t>(last_axis) + 1))
      refuse(binding, "picks among other dims than those of rows");
  }
  const ValueId slots = parameter(&PackingPlan::places, "places", {batch_ * sequence_});
  const ValueId places = axes->merged() ? slots : reshaped(slots, {batch_, sequence_}, binding);
  const ValueId picked =
      add(binding.op, {places, plain(binding.operands[1])}, binding.attributes, binding);
  const ValueId zero = number(DType::I64, 0, binding);
  const ValueId hidden =
      add(Op::cast, {add(Op::less, {picked, zero}, {}, binding)}, {{"to", DType::I64}}, binding);
  const ValueId count = add(Op::reduce_sum, {hidden}, {}, binding);
  hidden_picks_ =
      hidden_picks_ == no_value ? count : add(Op::add, {hidden_picks_, count}, {}, binding);
  return add(Op::gather, {packed(source), add(Op::max, {picked, zero}, {}, binding)},
             {{"axis", std::int64_t{0}}}, binding);
}

// Whether it is x[:, 0].
bool RowPacker::picks_first_rows(const Binding& binding) const {
  if (binding.op != Op::gather || axis_from_front(binding, type(binding.operands[0]).rank()) != 1)
    return false;
  const Binding* index = definition(binding.operands[1]);
  if (index == nullptr || index->op != Op::constant) return false;
  const Tensor& number = tensor_attribute(*index, "value");
  return number.elements() == 1 && number.rank() <= 1 && number.integer_at(0) == 0;
}

// x[:, 0] or x[:, 0:1]: a row of every sequence, which the run must find among those that take
// part.
ValueId RowPacker::first_rows(const Binding& binding) {
  const ValueId source = binding.operands[0];
  const auto axes = row_axes(source);
  if (!axes || axes->merged() || !axes->leading()) refuse(binding, "picks among rows");
  bool keeps = true;
  if (binding.op == Op::gather) {
    keeps = type(binding.operands[1]).rank() == 1;
  } else {
    const std::vector<std::size_t> along_sequence{1};
    if (!has_attribute(binding, "axes") ||
        normalised_axes(binding, type(source).rank()) != along_sequence ||
        integers_attribute(binding, "starts") != std::vector<std::int64_t>{0} ||
        integers_attribute(binding, "ends") != std::vector<std::int64_t>{1})
      refuse(binding, "picks other rows than the first of each sequence");
  }
  plan_.first_rows = true;
  const ValueId offsets = parameter(&PackingPlan::offsets, "offsets", {batch_ + 1});
  const ValueId starts = add(
      Op::strided_slice, {offsets},
      {{"starts", std::vector<std::int64_t>{0}}, {"ends", std::vector<std::int64_t>{-1}}}, binding);
  const ValueId rows =
      add(Op::gather, {packed(source), starts}, {{"axis", std::int64_t{0}}}, binding);
  return keeps ? add(Op::expand_dims, {rows}, {{"axes", std::vector<std::int64_t>{1}}}, binding)
               : rows;
}

std::optional<double> RowPacker::number_where_hidden(ValueId value) const {
  const auto axes = row_axes(value);
  if (!axes) return std::nullopt;
  const Dims& dims = type(value).dims;
  const Dim batch = batch_index(dims.size());
  Dims index;
  std::vector<Iteration> space{{batch.leaf(), batch_}, {row_index().leaf(), sequence_}};
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis == axes->batch || axis == axes->sequence) {
      index.push_back(axes->merged()        ? batch * sequence_ + row_index()
                      : axis == axes->batch ? batch
                                            : row_index());
      continue;
    }
    space.push_back({batch_index(axis).leaf(), dims[axis]});
    index.push_back(batch_index(axis));
  }
  try {
    ElementProgram element;
    build_element(element, padded_, padded_.body, value, index, space);
    const ScalarStep last =
        fold(element, takes_part(mask_, padded_, {batch, row_index()}, false)).program.steps.back();
    if (!last.is<step::Constant>()) return std::nullopt;
    return is_float(last.dtype) ? last.as<step::Constant>().real
                                : static_cast<double>(last.as<step::Constant>().integer);
  } catch (const NoLoopForm&) {
    return std::nullopt;
  }
}

RowAxes RowPacker::require_leading(ValueId result) const {
  const RowAxes axes = *row_axes(result);
  if (!axes.leading())
    throw CannotPack{fmt::format("batch and sequence are not the first dims of result %{}",
                                 padded_.values[result].name)};
  return axes;
}

ValueId RowPacker::unpacked(ValueId value) {
  const RowAxes axes = require_leading(value);
  const Binding like{.results = {value},
                     .source = definition(value) != nullptr ? definition(value)->source : ""};
  const Dims& dims = type(value).dims;
  const Dim slots = batch_ * sequence_;
  const ValueId places = parameter(&PackingPlan::places, "places", {slots});
  const ValueId zero = number(DType::I64, 0, like);
  const ValueId rows = add(Op::gather, {packed(value), add(Op::max, {places, zero}, {}, like)},
                           {{"axis", std::int64_t{0}}}, like);
  Dims one_each{slots};
  one_each.resize(axes.merged() ? dims.size() : dims.size() - 1, Dim(1));
  const ValueId hidden = reshaped(add(Op::less, {places, zero}, {}, like), one_each, like);
  const ValueId kept = add(Op::where, {hidden, number(type(value).dtype, 0, like), rows}, {}, like);
  return reshaped(kept, dims, like);
}

}  // namespace anydim::passes
