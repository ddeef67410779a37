// Iteration spaces counted by one number: from a thread's number to its place.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "codegen_cuda/scalars/index_writer.h"

namespace anydim::codegen_cuda {

struct LinearSpace {
  std::vector<ir::Iteration> iterations;  // outermost first
  ir::Dim points;                         // product of the extents
};
LinearSpace linear_space(KernelWriter& kernel, std::span<const ir::Iteration> iterations);

// Defines the iterations' symbols in `scope` for row-major position `point` of the space.
void define_point(KernelWriter& kernel, CodeScope& scope, const LinearSpace& space,
                  const IndexVariable& point);
using PointBody = std::function<void(CodeScope&)>;
// Runs the body for each point of the space: threads of the grid take one after the other.
// `threads` a block.
void write_grid_stride(KernelWriter& kernel, CodeScope& scope, const LinearSpace& space,
                       int threads, const PointBody& body);

// Whether a counter that runs to `points` in steps of a grid needs 64 bits.
bool counter_is_wide(const KernelWriter& kernel, const ir::Dim& points);

}  // namespace anydim::codegen_cuda
