// RowPacker: operations of their own on packed rows.
#include <algorithm>
#include <span>

#include "passes/row_packer.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Whether a reshape leaves batch and sequence whole and where they are: as many elements before,
// between and behind them.
bool keeps_rows(const std::vector<Dim>& from, const RowAxes& a, const std::vector<Dim>& to,
                const RowAxes& b) {
  if (a.merged() != b.merged() || (a.batch < a.sequence) != (b.batch < b.sequence)) return false;
  const auto same = [&](std::size_t from_first, std::size_t from_last, std::size_t to_first,
                        std::size_t to_last) {
    return product(std::span(from).subspan(from_first, from_last - from_first)) ==
           product(std::span(to).subspan(to_first, to_last - to_first));
  };
  const std::size_t a_first = std::min(a.batch, a.sequence), a_last = std::max(a.batch, a.sequence);
  const std::size_t b_first = std::min(b.batch, b.sequence), b_last = std::max(b.batch, b.sequence);
  return same(0, a_first, 0, b_first) && same(a_last + 1, from.size(), b_last + 1, to.size()) &&
         (a.merged() || same(a_first + 1, a_last, b_first + 1, b_last));
}

}  // namespace

ValueId RowPacker::pack_reshape(const Binding& binding, const RowAxes& axes) {
  // A reshape of a reshape is one of its operand, whatever dims stand between.
  const Dims& to = type(binding.results[0]).dims;
  for (const Binding* view = &binding; view != nullptr && info(view->op).has(traits::reshapes);
       view = definition(view->operands[0])) {
    const ValueId source = view->operands[0];
    const auto from = find_row_axes(padded_.values[source].type, batch_, sequence_).axes;
    if (!from) continue;
    const bool whole = rows_first(binding.results[0], axes) && rows_first(source, *from);
    if (whole || keeps_rows(type(source).dims, *from, to, axes))
      return reshaped(packed(source), packed_dims(to, axes), binding);
  }
  refuse(binding, "takes rows apart or joins them with other dims");
}

ValueId RowPacker::pack_transpose(const Binding& binding, const RowAxes& axes) {
  const ValueId source = binding.operands[0];
  const RowAxes from = *row_axes(source);
  const std::size_t rank = type(source).rank();
  std::vector<std::int64_t> perm;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (!axes.merged() && axis == axes.batch) continue;
    std::int64_t old = static_cast<std::int64_t>(rank - 1 - axis);
    if (has_attribute(binding, "perm")) old = integers_attribute(binding, "perm")[axis];
    if (old < 0) old += static_cast<std::int64_t>(rank);
    perm.push_back(static_cast<std::int64_t>(from.packed(static_cast<std::size_t>(old))));
  }
  return add(Op::transpose, {packed(source)}, {{"perm", std::move(perm)}}, binding);
}

ValueId RowPacker::pack_along(const Binding& binding, ValueId value, const RowAxes& axes) {
  const std::size_t rank = type(value).rank();
  const std::size_t along = axis_from_front(binding, rank);
  const bool onwards = binding.op == Op::layer_norm;
  if (along == axes.batch || along == axes.sequence ||
      (onwards && (along < axes.batch || along < axes.sequence)))
    refuse(binding, "works across rows");
  Binding copy{.op = binding.op, .attributes = binding.attributes, .source = binding.source};
  copy.attributes.insert_or_assign("axis", static_cast<std::int64_t>(axes.packed(along)));
  for (std::size_t i = 0; i < binding.operands.size(); ++i) {
    const ValueId operand = binding.operands[i];
    if (operand == no_value) copy.operands.push_back(no_value);
    else if (i > 0 && binding.op != Op::concat) copy.operands.push_back(plain(operand));
    else if (row_axes(operand) == std::optional(axes)) copy.operands.push_back(packed(operand));
    else
      refuse(binding,
             fmt::format("joins rows with %{}, which has none", padded_.values[operand].name));
  }
  for (const ValueId result : binding.results) {
    copy.results.push_back(made_.add_value(padded_.values[result].name + "_packed"));
    packed_[result] = copy.results.back();
  }
  made_.body.bindings.push_back(std::move(copy));
  return packed_.at(value);
}

ValueId RowPacker::pack_slice(const Binding& binding, const RowAxes& axes) {
  const ValueId source = binding.operands[0];
  const auto rank = static_cast<std::int64_t>(type(source).rank());
  if (row_axes(source) != std::optional(axes) || !has_attribute(binding, "axes"))
    refuse(binding, "picks among rows");
  std::vector<std::int64_t> along;
  for (const std::int64_t axis : integers_attribute(binding, "axes")) {
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    if (at == axes.batch || at == axes.sequence) refuse(binding, "picks among rows");
    along.push_back(static_cast<std::int64_t>(axes.packed(at)));
  }
  Attributes attributes = binding.attributes;
  attributes.insert_or_assign("axes", std::move(along));
  return add(Op::strided_slice, {packed(source)}, std::move(attributes), binding);
}

ValueId RowPacker::pack_reduction(const Binding& binding, const RowAxes&) {
  const ValueId source = binding.operands[0];
  const auto from = row_axes(source);
  if (!from) refuse(binding, "makes rows");
  std::vector<std::int64_t> axes;
  for (const std::size_t axis : normalised_axes(binding, type(source).rank())) {
    if (axis == from->batch || axis == from->sequence) refuse(binding, "works across rows");
    axes.push_back(static_cast<std::int64_t>(from->packed(axis)));
  }
  Attributes attributes = binding.attributes;
  attributes.insert_or_assign("axes", std::move(axes));
  return add(binding.op, {packed(source)}, std::move(attributes), binding);
}

ValueId RowPacker::pack_matmul(const Binding& binding, const RowAxes& axes) {
  const ValueId left = binding.operands[0], right = binding.operands[1];
  const auto from = row_axes(left);
  const std::size_t last = type(left).rank() - 1;
  // Weights, of each group too, times columns that are rows, as a convolution of one element a
  // window has them.
  const std::size_t left_rank = type(left).rank(), right_rank = type(right).rank();
  if (const auto columns = row_axes(right); !from && columns == std::optional(axes) &&
                                            left_rank >= 2 && columns->sequence + 1 == right_rank &&
                                            columns->batch + left_rank < right_rank)
    return add(Op::matmul, {plain(left), packed(right)}, {}, binding);
  if (!from || holds_rows(right) || type(right).rank() > 2 || from->batch == last ||
      from->sequence == last || !(*from == axes))
    refuse(binding, "multiplies rows by rows");
  return add(Op::matmul, {packed(left), plain(right)}, {}, binding);
}

ValueId RowPacker::pack_attention(const Binding& binding, const RowAxes& axes) {
  const ValueId bias = binding.operands.size() > 3 ? binding.operands[3] : no_value;
  auto found = masks_.find(bias);
  if (found == masks_.end())
    found = masks_.emplace(bias, find_mask(padded_, padded_.body, binding, reading_)).first;
  const auto& [finding, reason] = found->second;
  if (!finding) throw CannotPack{reason};
  const std::size_t rank = type(binding.results[0]).rank();
  const bool same = finding->mask == mask_.mask && finding->kept == mask_.kept &&
                    finding->question.steps == mask_.question.steps;
  if (!same || finding->batch_axis != axes.batch)
    refuse(binding, "has another mask than the attention before it");
  if (axes.sequence != rank - 2) refuse(binding, "does not have its rows in the last dim but one");
  require_hidden(*finding, binding);
  plan_.leading_rows = plan_.leading_rows || finding->leading;
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < 3; ++i) {
    if (row_axes(binding.operands[i]) != std::optional(axes))
      refuse(binding, "attends to other rows than its own");
    operands.push_back(packed(binding.operands[i]));
  }
  operands.push_back(bias_between(*finding, binding));
  operands.push_back(parameter(&PackingPlan::offsets, "offsets", {batch_ + 1}));
  operands.push_back(parameter(&PackingPlan::work, "work", {batch_, 2}));
  Attributes attributes = binding.attributes;
  const bool zero_nan = integer_attribute(binding, "zero_nan") != 0;
  attributes.erase("zero_nan");
  const ValueId values = operands[2],
                weighted = add(Op::attention, std::move(operands), std::move(attributes), binding);
  return zero_nan ? without_nan_weights(binding, weighted, values, axes) : weighted;
}

// As passes/decompose writes it, a sequence at a time.
ValueId RowPacker::without_nan_weights(const Binding& binding, ValueId weighted, ValueId values,
                                       const RowAxes& axes) {
  const auto rank = static_cast<std::int64_t>(type(binding.results[0]).rank()) - 1,
             row = static_cast<std::int64_t>(axes.rows());
  std::vector<std::int64_t> first{row}, back;
  for (std::int64_t axis = 0; axis < rank; ++axis)
    if (axis != row) first.push_back(axis);
  for (std::int64_t axis = 0; axis < rank; ++axis)
    back.push_back(std::ranges::find(first, axis) - first.begin());
  const ValueId zero = number(type(binding.results[0]).dtype, 0, binding);
  const ValueId none =
      add(Op::transpose, {add(Op::mul, {values, zero}, {}, binding)}, {{"perm", first}}, binding);
  const ValueId sums =
      add(Op::segment_sum, {none, parameter(&PackingPlan::offsets, "offsets", {batch_ + 1})}, {},
          binding);
  const ValueId sequences = parameter(&PackingPlan::sequences, "sequences", {tokens_});
  const ValueId rows = add(Op::gather, {sums, sequences}, {{"axis", std::int64_t{0}}}, binding);
  const ValueId sum = add(Op::transpose, {rows}, {{"perm", back}}, binding);
  return add(Op::where, {add(Op::is_nan, {weighted}, {}, binding), sum, weighted}, {}, binding);
}

}  // namespace anydim::passes
