// A hand-written persistent matmul in the shape of the generated ones: TMA ring of three stages,
// one producer warp, one consumer warpgroup with register reallocation, stmatrix and TMA stores. D
// (m x n, bf16) = A (m x k) * B (n x k) transposed; tiles of 64 x 32 x 64.
#pragma once

#include <string>

#include "tests/ptx/interpreter.h"

namespace anydim::ptx {

std::string persistent_matmul_ptx();

struct MatmulSize {
  int m = 0, n = 0, k = 0;
};

// Runs it on two blocks and compares every element. Empty, the findings, or the first wrong
// element.
std::string run_persistent_matmul(const Module& module, const MachineOptions& options,
                                  const MatmulSize& size);

}  // namespace anydim::ptx
