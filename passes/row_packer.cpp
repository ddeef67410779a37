#include "passes/row_packer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/loops/scalar_access.h"

namespace anydim::passes {

using namespace ir;

RowPacker::RowPacker(const Function& padded, PackedForm form, MaskReading reading)
    : padded_(padded), form_(form), reading_(reading), definitions_(padded.values.size(), nullptr) {
  for (const Binding& binding : padded.body.bindings)
    for (const ValueId result : binding.results) definitions_[result] = &binding;
}

bool RowPacker::asks_question() const {
  const auto asks = [](const MaskFinding& finding) { return !finding.question.steps.empty(); };
  return asks(mask_) || std::ranges::any_of(masks_, [&](const auto& one) {
           return one.second.finding && asks(*one.second.finding);
         });
}

void RowPacker::refuse(const Binding& binding, const std::string& why) const {
  throw CannotPack{fmt::format("{} {}", describe(padded_, binding), why)};
}

void RowPacker::find_rows() {
  for (const Binding& binding : padded_.body.bindings) {
    if (binding.op != Op::attention) continue;
    const MaskVerdict verdict = find_mask(padded_, padded_.body, binding, reading_);
    if (!verdict.finding) throw CannotPack{verdict.reason};
    mask_ = *verdict.finding;
    plan_.mask = mask_.mask;
    plan_.question = mask_.question;
    plan_.kept = mask_.kept;
    plan_.kept_entry = mask_.kept_entry;
    plan_.hidden_entry = mask_.hidden_entry;
    const Dims& dims = type(plan_.mask).dims;
    batch_ = dims[0];
    sequence_ = dims[1];
    if (batch_.is_constant() || sequence_.is_constant() || batch_ == sequence_)
      throw CannotPack{fmt::format("batch and sequence of %{} are not two unknown dims",
                                   padded_.values[plan_.mask].name)};
    plan_.batch = batch_;
    plan_.sequence = sequence_;
    return;
  }
  throw CannotPack{without_attention(padded_)};
}

Function RowPacker::run(PackingPlan& plan) {
  find_rows();
  made_.name = padded_.name;
  made_.symbols = padded_.symbols;
  tokens_ = made_.symbols.fresh("tokens");
  SymbolInfo tokens = *made_.symbols.find(tokens_.leaf().symbol);
  tokens.unbacked = false;
  tokens.reason = "rows that take part";
  made_.symbols.declare(tokens_.leaf().symbol, tokens);
  copy_parameters();
  for (const ValueId result : padded_.body.results) {
    plan_.ragged_results.push_back(holds_rows(result));
    made_.body.results.push_back(holds_rows(result) ? packed_result(result) : plain(result));
  }
  made_.result_names = padded_.result_names;
  if (hidden_picks_ != no_value) {
    made_.body.results.push_back(hidden_picks_);
    made_.result_names.push_back("packing.hidden_picks");
    plan_.counts_hidden_picks = true;
  }
  if (form_ == PackedForm::Ragged) {
    parameter(&PackingPlan::offsets, "offsets", {batch_ + 1});
    parameter(&PackingPlan::steps, "steps", {sequence_});
    plan_.mask = no_value;
    plan_.limited_inputs.clear();  // no row is hidden
  } else {
    plan_.mask = plain_.at(plan_.mask);
    std::set<ValueId> limited;
    for (const ValueId input : plan_.limited_inputs) limited.insert(plain_.at(input));
    plan_.limited_inputs = std::move(limited);
  }
  plan = plan_;
  return std::move(made_);
}

// An entry's way through elementwise ops beside constants and through views ends in weights, counts
// and biases, or it is data (an id that is looked up).
bool RowPacker::is_mask_alone() const {
  std::set<ValueId> entries{plan_.mask};
  for (const Binding& binding : padded_.body.bindings) {
    const auto is_entry = [&](ValueId operand) { return entries.contains(operand); };
    if (std::ranges::none_of(binding.operands, is_entry)) continue;
    const OpInfo& op = info(binding.op);
    if (op.has(traits::elementwise) || op.has(traits::moves)) {
      if (binding.op == Op::gather && is_entry(binding.operands[1])) return false;
      const auto decided = [&](ValueId operand) {
        return operand == no_value || is_entry(operand) ||
               (definition(operand) != nullptr && !holds_rows(operand));
      };
      if (std::ranges::all_of(binding.operands, decided))
        entries.insert(binding.results.begin(), binding.results.end());
    } else if (!op.has(traits::reduces) && binding.op != Op::shape_of &&
               binding.op != Op::attention) {
      return false;
    }
  }
  return true;
}

void RowPacker::copy_parameters() {
  if (form_ == PackedForm::Ragged && !is_mask_alone())
    throw CannotPack{fmt::format("input %{} is the mask, and more than a mask",
                                 padded_.values[plan_.mask].name)};
  for (const ValueId id : padded_.body.parameters) {
    const Value& value = padded_.values[id];
    if (form_ != PackedForm::Ragged) {
      plain_[id] = made_.add_value(value.name, value.type);
      made_.body.parameters.push_back(plain_[id]);
      continue;
    }
    if (id == plan_.mask) continue;
    const auto axes = row_axes(id);
    if (axes && !axes->leading())
      throw CannotPack{
          fmt::format("batch and sequence are not the first dims of input %{}", value.name)};
    const ValueId copy = made_.add_value(
        value.name,
        axes ? TensorType{value.type.tensor.dtype, packed_dims(value.type.tensor.dims, *axes)}
             : value.type);
    (axes ? packed_ : plain_)[id] = copy;
    made_.body.parameters.push_back(copy);
    plan_.ragged_inputs.push_back(axes.has_value());
  }
}

ValueId RowPacker::packed_result(ValueId result) {
  switch (form_) {
    case PackedForm::Exact: break;
    case PackedForm::Zeroed: return unpacked(result);
    case PackedForm::Ragged: require_leading(result); return packed(result);
  }
  throw CannotPack{
      fmt::format("result %{} keeps hidden rows, as the model computes them; --masked-rows zero "
                  "gives zeros there",
                  padded_.values[result].name)};
}

ValueId RowPacker::parameter(ValueId PackingPlan::* which, const char* name, Dims dims) {
  if (plan_.*which == no_value) {
    plan_.*which =
        made_.add_value(std::string("packing.") + name, TensorType{DType::I64, std::move(dims)});
    made_.body.parameters.push_back(plan_.*which);
  }
  return plan_.*which;
}

std::optional<RowAxes> RowPacker::row_axes(ValueId value) const {
  const FoundRows found = find_row_axes(padded_.values[value].type, batch_, sequence_);
  if (found.several)
    throw CannotPack{fmt::format("%{} has rows along several dims", padded_.values[value].name)};
  return found.axes;
}

RowPacker::Dims RowPacker::packed_dims(const Dims& dims, const RowAxes& axes) const {
  Dims result;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis == axes.sequence) result.push_back(tokens_);
    else if (axis != axes.batch) result.push_back(dims[axis]);
  }
  return result;
}

ValueId RowPacker::add(Op op, std::vector<ValueId> operands, Attributes attributes,
                       const Binding& like, const Dims& dims) {
  const std::string name =
      like.results.empty() ? "packed" : padded_.values[like.results[0]].name + "_packed";
  const ValueId result = made_.add_value(name);
  made_.body.bindings.push_back({.op = op,
                                 .operands = std::move(operands),
                                 .results = {result},
                                 .attributes = std::move(attributes),
                                 .dims = dims,
                                 .source = like.source});
  return result;
}

ValueId RowPacker::number(DType dtype, double value, const Binding& like) {
  Tensor tensor(dtype, {});
  if (is_float(dtype)) tensor.set_real(0, value);
  else tensor.set_integer(0, static_cast<std::int64_t>(value));
  return add(Op::constant, {}, {{"value", std::move(tensor)}}, like);
}

ValueId RowPacker::reshaped(ValueId value, const Dims& dims, const Binding& like) {
  const ValueId shape = add(Op::shape, {}, {}, like, dims);
  return add(Op::dyn_reshape, {value, shape}, {}, like);
}

ValueId RowPacker::squeezed(ValueId value, std::vector<std::int64_t> axes, const Binding& like) {
  return axes.empty() ? value : add(Op::squeeze, {value}, {{"axes", std::move(axes)}}, like);
}

ValueId RowPacker::packed(ValueId value) {
  if (const auto found = packed_.find(value); found != packed_.end()) return found->second;
  const auto axes = row_axes(value);
  if (!axes) return plain(value);
  const Binding* binding = definition(value);
  const ValueId result =
      binding == nullptr ? pack_parameter(value, *axes) : pack_binding(*binding, value, *axes);
  packed_[value] = result;
  return result;
}

ValueId RowPacker::pack_parameter(ValueId value, const RowAxes& axes) {
  const Dims& dims = type(value).dims;
  const Binding like{.results = {value}, .source = padded_.values[value].name};
  if (form_ == PackedForm::Ragged) {
    // Only the mask: the others were packed from the start.
    const ValueId kept = number(type(value).dtype, static_cast<double>(plan_.kept_entry), like);
    return add(Op::dyn_broadcast_to, {kept, add(Op::shape, {}, {}, like, {tokens_})}, {}, like);
  }
  if (!axes.leading())
    throw CannotPack{fmt::format("batch and sequence are not the first dims of input %{}",
                                 padded_.values[value].name)};
  ValueId rows = plain_.at(value);
  if (!axes.merged()) {
    Dims merged{batch_ * sequence_};
    merged.insert(merged.end(), dims.begin() + 2, dims.end());
    rows = reshaped(rows, merged, like);
  }
  return add(Op::gather, {rows, parameter(&PackingPlan::rows, "rows", {tokens_})},
             {{"axis", std::int64_t{0}}}, like);
}

ValueId RowPacker::aligned(const Binding& binding, ValueId operand, std::size_t rank,
                           const RowAxes& axes) {
  const Dims& dims = type(operand).dims;
  const std::size_t missing = rank - dims.size();
  const auto extent_is = [&](std::size_t axis, const Dim& extent) {
    return axis >= missing && dims[axis - missing] == extent;
  };
  const auto own = [&](std::size_t axis) { return static_cast<std::int64_t>(axis - missing); };
  if (axes.merged()) {
    if (extent_is(axes.batch, batch_ * sequence_)) return packed(operand);
    return plain(operand);
  }
  const bool has_batch = extent_is(axes.batch, batch_),
             has_sequence = extent_is(axes.sequence, sequence_);
  if (has_batch && has_sequence) {
    const auto found = row_axes(operand);
    if (!found || found->batch + missing != axes.batch ||
        found->sequence + missing != axes.sequence)
      refuse(binding, fmt::format("reads %{} along other rows", padded_.values[operand].name));
    return packed(operand);
  }
  for (const std::size_t axis : {axes.batch, axes.sequence}) {
    const bool named = axis == axes.batch ? has_batch : has_sequence;
    if (axis >= missing && !named && !dims[axis - missing].is_constant(1))
      refuse(binding, fmt::format("broadcasts %{} in a way that only the run decides",
                                  padded_.values[operand].name));
  }
  const ValueId copy = plain(operand);
  const bool batch_axis = axes.batch >= missing, sequence_axis = axes.sequence >= missing;
  if (has_sequence) {
    const ValueId narrow = squeezed(
        copy, batch_axis ? std::vector{own(axes.batch)} : std::vector<std::int64_t>{}, binding);
    const std::int64_t axis =
        own(axes.sequence) - (batch_axis && axes.batch < axes.sequence ? 1 : 0);
    return add(Op::gather, {narrow, parameter(&PackingPlan::positions, "positions", {tokens_})},
               {{"axis", axis}}, binding);
  }
  if (has_batch) {
    if (axes.sequence != axes.batch + 1)
      refuse(binding, fmt::format("reads %{} once a sequence, between other dims",
                                  padded_.values[operand].name));
    const ValueId narrow = squeezed(copy, {own(axes.sequence)}, binding);
    return add(Op::gather, {narrow, parameter(&PackingPlan::sequences, "sequences", {tokens_})},
               {{"axis", own(axes.batch)}}, binding);
  }
  // One element for all rows: the batch's dim of extent 1 goes, the sequence's stays and
  // broadcasts.
  return squeezed(
      copy,
      batch_axis && sequence_axis ? std::vector{own(axes.batch)} : std::vector<std::int64_t>{},
      binding);
}

ValueId RowPacker::pack_binding(const Binding& binding, ValueId value, const RowAxes& axes) {
  const OpInfo& op = info(binding.op);
  const std::size_t rank = type(value).rank();
  if (op.has(traits::elementwise)) {
    std::vector<ValueId> operands;
    for (const ValueId operand : binding.operands)
      operands.push_back(aligned(binding, operand, rank, axes));
    return add(binding.op, std::move(operands), binding.attributes, binding);
  }
  if (op.has(traits::reshapes)) return pack_reshape(binding, axes);
  switch (binding.op) {
    case Op::transpose: return pack_transpose(binding, axes);
    case Op::broadcast_to:
    case Op::dyn_broadcast_to: {
      const ValueId source = aligned(binding, binding.operands[0], rank, axes);
      const ValueId shape = add(Op::shape, {}, {}, binding, packed_dims(type(value).dims, axes));
      return add(Op::dyn_broadcast_to, {source, shape}, {}, binding);
    }
    case Op::full:
    case Op::dyn_full:
    case Op::zeros:
    case Op::dyn_zeros:
    case Op::ones:
    case Op::dyn_ones: return packed_fill(binding, axes);
    case Op::gather: {
      // A table that has no rows, read at each row's index.
      const ValueId table = binding.operands[0], indices = binding.operands[1];
      if (const auto from = row_axes(table); from && !holds_rows(indices)) {
        const std::size_t along = axis_from_front(binding, type(table).rank());
        if (along == from->batch || along == from->sequence) refuse(binding, "picks among rows");
        return add(Op::gather, {packed(table), plain(indices)},
                   {{"axis", static_cast<std::int64_t>(from->packed(along))}}, binding);
      }
      if (holds_rows(table) || !holds_rows(indices)) refuse(binding, "picks among rows");
      return add(Op::gather, {plain(table), packed(indices)}, binding.attributes, binding);
    }
    case Op::gather_nd: {
      // Parts of every row: what is indexed stands before batch and sequence.
      const ValueId table = binding.operands[0], indices = binding.operands[1];
      const auto from = row_axes(table);
      const auto depth = type(indices).dims.back().constant();
      if (!from || holds_rows(indices) || !depth || integer_attribute(binding, "batch_dims") != 0 ||
          *depth > static_cast<std::int64_t>(std::min(from->batch, from->sequence)))
        refuse(binding, "picks among rows");
      return add(Op::gather_nd, {packed(table), plain(indices)}, binding.attributes, binding);
    }
    case Op::cumulative_sum: return count_rows(binding, axes);
    case Op::strided_slice: return pack_slice(binding, axes);
    case Op::layer_norm:
    case Op::softmax:
    case Op::log_softmax:
    case Op::split:
    case Op::concat: return pack_along(binding, value, axes);
    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod: return pack_reduction(binding, axes);
    case Op::matmul: return pack_matmul(binding, axes);
    case Op::attention: return pack_attention(binding, axes);
    default: refuse(binding, "is not known to keep rows to themselves");
  }
}

// One number everywhere.
ValueId RowPacker::packed_fill(const Binding& binding, const RowAxes& axes) {
  const TensorType& filled = type(binding.results[0]);
  const bool given = binding.op == Op::full || binding.op == Op::dyn_full;
  const bool one = binding.op == Op::ones || binding.op == Op::dyn_ones;
  const ValueId element =
      given ? plain(binding.operands[0]) : number(filled.dtype, one ? 1 : 0, binding);
  return add(Op::dyn_broadcast_to,
             {element, add(Op::shape, {}, {}, binding, packed_dims(filled.dims, axes))}, {},
             binding);
}

// Rows stand one after the other where nothing but dims of 1 comes before them.
bool RowPacker::rows_first(ValueId value, const RowAxes& axes) const {
  const Dims& dims = type(value).dims;
  if (axes.sequence < axes.batch) return false;
  for (std::size_t axis = 0; axis < axes.sequence; ++axis)
    if (axis != axes.batch && !dims[axis].is_constant(1)) return false;
  return true;
}

}  // namespace anydim::passes
