// mapa and getctarank: shared addresses of a cluster's other blocks.
#include <fmt/format.h>

#include "tests/ptx/lanes.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

constexpr std::uint64_t offset_mask = (std::uint64_t{1} << shared_rank_shift) - 1;

std::uint64_t value_at(Warp& warp, std::int32_t offset, bool wide, int lane) {
  return wide ? warp.lanes<std::uint64_t>(offset)[lane] : warp.lanes<std::uint32_t>(offset)[lane];
}

Outcome execute_mapa(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const bool wide = instruction.flags != 0;
  const std::size_t blocks = warp.block.cluster->blocks.size();
  for_each_lane(mask, [&](int lane) {
    const std::uint64_t address = value_at(warp, instruction.slot[1], wide, lane);
    const std::uint32_t rank = warp.lanes<std::uint32_t>(instruction.slot[2])[lane];
    if (rank >= blocks)
      warp.stop(FindingKind::InvalidUse, lane,
                fmt::format("block {} of a cluster of {}", rank, blocks));
    const std::uint64_t window = address >> 32 << 32;
    const std::uint64_t mapped =
        window | (rank + std::uint64_t{1}) << shared_rank_shift | (address & offset_mask);
    if (wide) warp.lanes<std::uint64_t>(instruction.slot[0])[lane] = mapped;
    else warp.lanes<std::uint32_t>(instruction.slot[0])[lane] = static_cast<std::uint32_t>(mapped);
  });
  return Outcome::Next;
}

Outcome execute_rank(Warp& warp, const Instruction& instruction, LaneMask mask) {
  for_each_lane(mask, [&](int lane) {
    const auto rank = static_cast<std::uint32_t>(
                          value_at(warp, instruction.slot[1], instruction.flags != 0, lane)) >>
                      shared_rank_shift;
    warp.lanes<std::uint32_t>(instruction.slot[0])[lane] =
        rank == 0 ? warp.block.cluster_rank : rank - 1;
  });
  return Outcome::Next;
}

// Whether the address is a generic one or named by its space is no difference here: the window's
// bits stay as they are.
void decode(Decoder& decoder, bool is_map) {
  decoder.take_space(Space::Generic);
  const Type type = decoder.take_type();
  const bool wide = type_bytes(type) == 8;
  decoder.instruction.flags = wide ? 1 : 0;
  decoder.instruction.slot[0] = decoder.destination(0, is_map ? type : Type::u32);
  decoder.instruction.slot[1] = decoder.source(1, type);
  if (is_map) decoder.instruction.slot[2] = decoder.source(2, Type::u32);
  decoder.instruction.execute = is_map ? execute_mapa : execute_rank;
}

}  // namespace

void add_cluster_opcodes(OpcodeTable& table) {
  table["mapa"] = [](Decoder& decoder) { decode(decoder, true); };
  table["getctarank"] = [](Decoder& decoder) { decode(decoder, false); };
}

}  // namespace anydim::ptx
