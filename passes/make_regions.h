// The last stage of fusion: kernels of a block become regions of the module and calls of them.
#pragma once

#include <vector>

#include "passes/collect_kernels.h"
#include "passes/fused_regions.h"
#include "passes/fusion_block.h"

namespace anydim::passes {

// The block's new bindings, in order. `parts`: the last one first, as collect_kernels() gives them.
// Throws Error{Unsupported} where a binding has no kernel.
std::vector<ir::Binding> make_regions(const FusionBlock& block, const std::vector<BlockPart>& parts,
                                      FusedRegions& regions);

}  // namespace anydim::passes
