// Where a shared address points: which block's shared memory, of the cluster's.
#pragma once

#include <cstdint>

#include "tests/ptx/execution.h"

namespace anydim::ptx {

struct SharedPlace {
  Block* block = nullptr;
  std::uint32_t address = 0;  // without the rank: as the block itself writes it
};

// `address` is one of `space`: Shared, SharedCluster or Generic. Stops the launch where it is no
// shared address, or the block that it names doesn't exist or has ended.
SharedPlace shared_place(Warp& warp, Space space, std::uint64_t address, int lane);

// The block's pointer for a rank in its cluster, nullptr when that block has ended.
Block* block_of_rank(const Cluster& cluster, std::uint32_t rank);

}  // namespace anydim::ptx
