// The second stage of fusion: from the results backwards, what each kernel of a block computes.
#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "passes/fused_regions.h"
#include "passes/fusion_block.h"

namespace anydim::passes {

struct FusedKernel {
  Members members;
  std::vector<ir::ValueId> outputs;
};
// A binding that no kernel computes, or a kernel.
using BlockPart = std::variant<std::size_t, FusedKernel>;

// The block's parts, the last one first. `groups`, whose members stand side by side, each become a
// kernel with the producers that it takes in (take_producers.h); so does what is in no group. A map
// that others read later is a second result of the map over the same elements that reads it. What
// no result needs is dropped.
std::vector<BlockPart> collect_kernels(const FusionBlock& block, const Groups& groups,
                                       FusedRegions& regions);

}  // namespace anydim::passes
