// wgmma as the interpreter runs it: each warp of a warpgroup computes its own 16 rows,
// asynchronously, in order of issue.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/ptx/execution.h"
#include "tests/ptx/units/fragment.h"
#include "tests/ptx/units/wgmma_descriptor.h"

namespace anydim::ptx {

// One wgmma.mma_async as decoded.
struct WgmmaShape {
  int n = 0;
  int k = 0;
  ElementFormat format = ElementFormat::BF16;
  Major a_major = Major::K;
  Major b_major = Major::K;
  double a_scale = 1;  // 1 or -1
  double b_scale = 1;
};

struct WgmmaOperands {
  WgmmaShape shape;
  std::vector<std::int32_t> accumulators;  // register-file offsets, n / 2
  std::vector<std::int32_t> a_registers;   // four, or empty: A comes from shared memory
  std::uint64_t a = 0;                     // descriptors
  std::uint64_t b = 0;
  bool accumulate = true;  // scale-d
};

void issue_wgmma(Warp& warp, const Instruction& instruction, WgmmaOperands operands);
void wgmma_fence(Warp& warp);
void wgmma_commit(Warp& warp);
void wgmma_wait(Warp& warp, std::uint32_t newest);

}  // namespace anydim::ptx
