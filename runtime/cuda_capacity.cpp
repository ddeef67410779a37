#include "runtime/cuda_capacity.h"

#include <algorithm>
#include <bit>

namespace anydim::runtime::cuda {

std::int64_t capacity_step(std::int64_t value, std::int64_t multiple, std::int64_t limit) {
  constexpr std::int64_t steps_an_octave = 4;
  if (value <= 1 || value >= limit) return value;
  const auto octave =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(value - 1)));
  const auto round_up = [&](std::int64_t unit) { return (value - 1) / unit * unit + unit; };
  // Past the middle of 64 bits rounding up could overflow; such sizes fail elsewhere.
  if (octave > (std::int64_t{1} << 61)) return value;
  std::int64_t step = round_up(std::max<std::int64_t>(octave / steps_an_octave, 1));
  step = (step - 1) / multiple * multiple + multiple;
  if (step > limit) step = limit / multiple * multiple;
  return std::max(step, value);
}

CapacityPlan::CapacityPlan(const ir::Program& program) : program_(program) {
  for (const ir::Code::Instruction& instruction : program.entry().instructions) {
    if (const auto* launch = std::get_if<ir::Code::Launch>(&instruction))
      watched_.insert(watched_.end(), launch->extents.begin(), launch->extents.end());
  }
  for (const ir::Code::Buffer& buffer : program.entry().buffers) {
    if (buffer.bytes >= 0) watched_.push_back(buffer.bytes);
  }
  std::ranges::sort(watched_);
  const auto repeated = std::ranges::unique(watched_);
  watched_.erase(repeated.begin(), repeated.end());
}

std::vector<std::int64_t> CapacityPlan::leaves_at_capacity(
    std::span<const std::int64_t> slots, std::span<const std::int64_t> limits) const {
  std::vector<std::int64_t> leaves(program_.entry().leaf_symbols.size());
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    leaves[leaf] = slots[leaf];
    const std::string& symbol = program_.entry().leaf_symbols[leaf];
    if (symbol.empty()) continue;  // an element of an input: what it means to sizes is not known
    const ir::SymbolInfo* known = program_.entry().symbols.find(symbol);
    const ir::SymbolInfo info = known == nullptr ? ir::SymbolInfo{} : *known;
    leaves[leaf] = capacity_step(slots[leaf], info.multiple, std::min(info.high, limits[leaf]));
  }
  return leaves;
}

bool CapacityPlan::holds(std::span<const std::int64_t> capacity,
                         std::span<const std::int64_t> slots) const {
  return std::ranges::all_of(watched_, [&](ir::Code::Slot slot) {
    return slots[static_cast<std::size_t>(slot)] <= capacity[static_cast<std::size_t>(slot)];
  });
}

}  // namespace anydim::runtime::cuda
