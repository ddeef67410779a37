// How much a launch moves and computes, for choosing schedules and for cost models. Plain counting,
// no code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen_cuda/kernel_kind.h"

namespace anydim::codegen_cuda {

// ir::estimated_at of the points of a loop form's iteration space.
double points_at(const PlanInputs& inputs, std::span<const ir::Iteration> space,
                 std::span<const std::int64_t> keys);
// ir::traffic_bytes() without values of the keys.
double traffic_bytes(const PlanInputs& inputs, double points);
// Instructions of one operation, roughly; those of the special function unit count as the eight
// that could run meanwhile.
double operation_clocks(const ir::ScalarStep& step);
// Clocks of one thread for one point of a program, at the rate of its multiprocessor's four
// schedulers with 32 lanes each; a thread has `together` neighbours at a time.
double point_clocks(const ir::ScalarProgram& program, double together = 1);
// Neighbouring elements that suit a thread: 16 bytes of the narrowest buffer, but no more than 32
// of the widest and 256 of all buffers together, so that they fit the registers. A power of two.
std::int64_t vector_elements(const PlanInputs& inputs);

// Values of a space's extents. Where keys tell only products of several, the inner ones are taken
// for a text's length.
std::vector<double> extents_at(const PlanInputs& inputs, std::span<const ir::Iteration> space,
                               std::span<const std::int64_t> keys);

// One launch of `blocks` blocks of `threads` threads, `resident` of them on a multiprocessor at
// once, that needs `bytes` of memory, moves `cached` bytes between its multiprocessors and the L2
// cache (0: as many) and computes for `clocks` thread-clocks in all (as point_clocks counts).
struct StreamingWork {
  double blocks = 0, threads = 0, resident = 0, bytes = 0, clocks = 0, cached = 0;
};
// By waves, bandwidth of memory (where what it needs does not fit the L2 cache) and of the L2
// cache, and start.
double launch_seconds(const CudaTarget& target, const StreamingWork& work);
// By the part's description: its lanes' multiply-adds and its tensor cores', and the bandwidth of
// the L2 cache and of memory. No launch is faster, and none may reach it.
ir::DeviceLimits limits_of(const CudaTarget& target);
LaunchCycles launch_cycles(const CudaTarget& target, const StreamingWork& work);

}  // namespace anydim::codegen_cuda
