// Maps whose results run along one loop while operands run along another: both sides are made
// contiguous through tiles in shared memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen_cuda/kernel_writer.h"

namespace anydim::codegen_cuda {

struct TileTranspose {
  // position of the loop that the operands run along; stores run along the last one
  std::size_t along = 0;
  std::vector<std::int32_t> loads;  // steps read through tiles
};

// Nothing where the part has no such operand, or its loops are too short for tiles.
std::optional<TileTranspose> find_transpose(KernelWriter& kernel, const ir::MapPart& part,
                                            int threads);

// Writes the part's loop over tiles; returns how many tiles (blocks) there are.
ir::Dim write_transpose(KernelWriter& kernel, CodeScope& entry, const ir::MapPart& part,
                        const TileTranspose& transpose, int threads);

}  // namespace anydim::codegen_cuda
