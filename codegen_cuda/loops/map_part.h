// Independent points of a map as grid-strided code; for maps and for the stages of other forms that
// are maps.
#pragma once

#include <cstdint>

#include "codegen_cuda/kernel_writer.h"

namespace anydim::codegen_cuda {

// Neighbours that a thread computes at a time, of `wanted` at most: lines of several loops are made
// of whole vectors.
std::int64_t vector_width(const ir::MapPart& part, std::int64_t wanted,
                          const ir::SymbolTable& symbols);
// Writes all points of the part into an entry of `threads` threads a block, `width` neighbours at a
// time where the extents allow it, or by tiles in shared memory where operands run along another
// loop than results. Gives the blocks that it keeps busy; any number of blocks computes all.
ir::Dim write_map_part(KernelWriter& kernel, CodeScope& entry, const ir::MapPart& part,
                       std::int64_t width, int threads);

}  // namespace anydim::codegen_cuda
