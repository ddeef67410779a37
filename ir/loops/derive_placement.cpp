#include <algorithm>

#include "ir/error.h"
#include "ir/loops/derive.h"
#include "ir/reduction.h"

namespace anydim::ir::derive {

namespace {

bool share_a_symbol(const Dim& a, const Dim& b) {
  for (const DimLeaf& leaf : a.leaves())
    if (b.mentions(leaf)) return true;
  return false;
}

}  // namespace

const Placement* Placements::find(ValueId value) const {
  for (const auto* placements : {&placed_, &written_})
    if (const auto found = placements->find(value); found != placements->end())
      return &found->second;
  return nullptr;
}

bool Placements::depends(const Binding& binding) const {
  return std::any_of(binding.operands.begin(), binding.operands.end(),
                     [&](ValueId operand) { return placed_.contains(operand); });
}

bool Placements::in_frame(ValueId value) const {
  const std::vector<Dim>& dims = subgraph_.tensor(value).dims;
  if (dims.size() != frame_dims_.size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (prove_equal(dims[i], frame_dims_[i], symbols_) != Proof::Yes) return false;
  return true;
}

void Placements::follow(const Binding& binding) {
  if (info(binding.op).has(traits::elementwise) || binding.op == Op::broadcast_to ||
      binding.op == Op::dyn_broadcast_to) {
    follow_elementwise(binding);
    return;
  }
  if (is_in_place(binding)) return follow_overwrite(binding);
  for (std::size_t i = 1; i < binding.operands.size(); ++i)
    if (placed_.contains(binding.operands[i]))
      throw NoLoopForm{"a kernel's result is more than the one operand that it moves: " +
                       describe(*subgraph_.function, binding)};
  std::vector<Dim> index = moved(binding);
  placed_[binding.results[0]] = {std::move(index), placed_.at(binding.operands[0]).level};
}

void Placements::follow_elementwise(const Binding& binding) {
  const std::vector<Dim>& dims = subgraph_.tensor(binding.results[0]).dims;
  std::vector<std::optional<Dim>> index(dims.size());
  int level = 0;
  for (ValueId operand : binding.operands) {
    auto found = placed_.find(operand);
    if (found == placed_.end()) continue;
    level = std::max(level, found->second.level);
    const std::vector<Dim>& operand_dims = subgraph_.tensor(operand).dims;
    std::size_t skipped = dims.size() - operand_dims.size();
    for (std::size_t i = 0; i < operand_dims.size(); ++i) {
      auto& at = index[i + skipped];
      bool same = operand_dims[i] == dims[i + skipped] ||
                  prove_equal(operand_dims[i], dims[i + skipped], symbols_) == Proof::Yes;
      if (!same) {
        if (prove_equal(operand_dims[i], 1, symbols_) == Proof::Yes) continue;
        throw NoLoopForm{"an undecided broadcast of a kernel's result: " +
                         describe(*subgraph_.function, binding)};
      }
      if (at && !(*at == found->second.index[i]))
        throw NoLoopForm{"two results of the kernel meet at different indices: " +
                         describe(*subgraph_.function, binding)};
      at = found->second.index[i];
    }
  }
  std::vector<Dim> result;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (index[i]) {
      result.push_back(*index[i]);
      continue;
    }
    bool fits = dims.size() == frame_dims_.size() &&
                prove_equal(dims[i], frame_dims_[i], symbols_) == Proof::Yes;
    // In a square frame a row's result may meet the other axis than its own.
    for (std::size_t j = 0; fits && j < index.size(); ++j)
      fits = !index[j] || !share_a_symbol(*index[j], frame_index_[i]);
    if (!fits)
      throw NoLoopForm{"a kernel's result is broadcast beyond its rows: " +
                       describe(*subgraph_.function, binding)};
    result.push_back(frame_index_[i]);
  }
  placed_[binding.results[0]] = {std::move(result), level};
}

void Placements::follow_overwrite(const Binding& binding) {
  if (placed_.contains(binding.operands[0]))
    throw NoLoopForm{"a kernel's result is overwritten in it: " +
                     describe(*subgraph_.function, binding)};
  Placement placement = placed_.at(binding.operands[1]);
  Dim& at = placement.index[axis_from_front(binding, placement.index.size())];
  at = at + given_elements(subgraph_, binding, "start", 2).at(0);
  written_[binding.results[0]] = std::move(placement);
}

Store Placements::store_of(ProgramBuilder& builder, std::size_t output, ValueId value) const {
  const Binding* definition = subgraph_.definition(value);
  const ValueId computed =
      written_.contains(value) ? definition->operands[1] : value;  // of which it writes all
  return {static_cast<std::int32_t>(output), find(value)->index,
          builder.element(computed, find(computed)->index)};
}

std::vector<Dim> Placements::moved(const Binding& binding) const {
  const std::vector<Dim>& index = placed_.at(binding.operands[0]).index;
  const std::vector<Dim>& from = subgraph_.tensor(binding.operands[0]).dims;
  const std::vector<Dim>& to = subgraph_.tensor(binding.results[0]).dims;
  if (info(binding.op).has(traits::reshapes)) return reshape_index(index, from, to, symbols_);
  switch (binding.op) {
    case Op::check_shape: return index;
    case Op::transpose: {
      std::vector<Dim> result;
      for (std::size_t axis : permutation(binding, index.size())) result.push_back(index[axis]);
      return result;
    }
    default:
      throw NoLoopForm{"it does not keep every element of a kernel's result: " +
                       describe(*subgraph_.function, binding)};
  }
}

bool is_segment_reduction(Op op) {
  const auto found = reduction_op(op);
  return found && found->over == ReducedOver::Segments;
}

bool is_reduction(Op op) {
  const auto found = reduction_op(op);
  return found && found->over != ReducedOver::RunTimeAxes;
}

namespace {

std::int32_t buffer_from_outside(const AccessContext& context, const Binding& binding,
                                 ValueId value, const char* what) {
  const auto buffer = context.buffers.find(value);
  if (buffer == context.buffers.end())
    throw NoLoopForm{std::string(what) +
                     " from outside the kernel: " + describe(*context.subgraph->function, binding)};
  return buffer->second;
}

}  // namespace

Segments segments_of(AccessContext& context, const Binding& binding, ValueId offsets,
                     const Dim& rows) {
  const std::int32_t buffer =
      buffer_from_outside(context, binding, offsets, "segments are cut by offsets");
  const KernelCheck check{KernelCheck::Kind::Offsets,
                          std::string(info(binding.op).text) + " offsets", binding.source, rows};
  return {.offsets = buffer,
          .count = context.subgraph->tensor(offsets).dims.front() - 1,
          .check = context.check_position(check)};
}

void add_work(Segments& segments, AccessContext& context, const Binding& binding, ValueId work) {
  segments.work = buffer_from_outside(context, binding, work, "segments are worked on in an order");
  segments.work_check =
      context.check_position({KernelCheck::Kind::Work, std::string(info(binding.op).text) + " work",
                              binding.source, segments.count});
}

Reduce reduce_kind(Op op) {
  switch (reduction_of(op)) {
    case Reduction::Sum: return Reduce::Sum;
    case Reduction::Product: return Reduce::Product;
    case Reduction::Max: return Reduce::Max;
    case Reduction::Min: return Reduce::Min;
    case Reduction::Mean: break;
  }
  internal_error("a primitive reduction");
}

std::vector<std::vector<Dim>> buffer_dims(const AccessContext& context) {
  std::vector<std::vector<Dim>> dims(context.buffers.size());
  for (const auto& [value, position] : context.buffers)
    dims[static_cast<std::size_t>(position)] = context.subgraph->tensor(value).dims;
  return dims;
}

std::vector<std::vector<Dim>> output_dims(const AccessContext& context,
                                          std::span<const ValueId> outputs) {
  std::vector<std::vector<Dim>> dims;
  for (ValueId output : outputs) dims.push_back(context.subgraph->tensor(output).dims);
  return dims;
}

}  // namespace anydim::ir::derive
