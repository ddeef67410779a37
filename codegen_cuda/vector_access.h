// Programs over elements that lie side by side, the last of which may lie beyond the extent (VectorLanes in vector_lanes.h has no such end): whole
// vectors are loaded and stored where their places are known to be aligned and there is no such end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen_cuda/scalar_writer.h"

namespace anydim::codegen_cuda {

// `width` points from `first` on along the loop symbol `symbol`, of which the iteration has `extent`. `first` is a multiple of width and less than the extent.
struct VectorSpace {
  std::string symbol;
  ir::Dim extent;
  int width = 4;
  IndexVariable first;
};

// Writes a program at the points of a vector into `scope`. `prepare` is called once with the writer, for slots; `at_point` once in the scope of a single
// point, where the symbol and the constant int `lane` (0 ... width - 1) are defined: there it asks for values, and names them in terms of both.
struct VectorProgram {
  const ir::ScalarProgram& program;
  std::vector<std::int32_t> roots;
  std::vector<ir::Store> stores;
  std::function<void(ScalarWriter& writer, CodeScope& point, const std::string& lane)> at_point;
};
void write_vector(KernelWriter& kernel, CodeScope& scope, const VectorSpace& space, const VectorProgram& program);

}  // namespace anydim::codegen_cuda
