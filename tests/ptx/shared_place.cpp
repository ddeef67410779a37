#include "tests/ptx/shared_place.h"

#include <fmt/format.h>

namespace anydim::ptx {

SharedPlace shared_place(Warp& warp, Space space, std::uint64_t address, int lane) {
  if (space == Space::Generic) {
    if (address >> 32 != shared_window >> 32) {
      warp.stop(FindingKind::OutOfBounds, lane,
                fmt::format("{:#x} is not an address in shared memory", address));
    }
    address -= shared_window;
  }
  const auto offset = static_cast<std::uint32_t>(address & ((1u << shared_rank_shift) - 1));
  const auto rank = static_cast<std::uint32_t>(address >> shared_rank_shift);
  if (rank == 0) return {&warp.block, offset};
  if (rank > warp.block.cluster->blocks.size()) {
    warp.stop(FindingKind::OutOfBounds, lane,
              fmt::format("{:#x} names block {} of a cluster of {}", address, rank - 1,
                          warp.block.cluster->blocks.size()));
  }
  Block* const block = block_of_rank(*warp.block.cluster, rank - 1);
  if (block == nullptr) {
    warp.stop(
        FindingKind::InvalidUse, lane,
        fmt::format("{:#x} lies in block {} of the cluster, which has ended", address, rank - 1));
  }
  return {block, offset};
}

Block* block_of_rank(const Cluster& cluster, std::uint32_t rank) {
  Block* const block = cluster.blocks[rank];
  return block != nullptr && !block->finished ? block : nullptr;
}

}  // namespace anydim::ptx
