// How much a launch moves and computes, for choosing schedules and for cost models. Plain counting, no code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen_cuda/skeleton.h"

namespace anydim::codegen_cuda {

// Value of a product of extents (of a loop form's iteration space, in order): constants are themselves, the others the region's keys, and a
// middling size where the region has no keys.
double points_at(const PlanInputs& inputs, std::span<const ir::Iteration> space, std::span<const std::int64_t> keys);
// Bytes that one launch must read and write at least: every buffer once, but no more than `points` elements of each.
double traffic_bytes(const PlanInputs& inputs, double points);
// Clocks of one thread for one point of a program, at the rate of its multiprocessor's four schedulers with 32 lanes each.
double point_clocks(const ir::ScalarProgram& program);
// Neighbouring elements that suit a thread: 16 bytes of the narrowest buffer, but no more than 32 of the widest and 256 of all buffers together, so
// that they fit the registers. A power of two.
std::int64_t vector_elements(const PlanInputs& inputs);

// Seconds of one launch of `blocks` blocks of `threads` threads, `resident` of them on a multiprocessor at once, that moves `bytes` and computes for
// `clocks` thread-clocks in all (as point_clocks counts): waves, bandwidth (of the L2 cache where what is moved fits it), launch.
double launch_seconds(const CudaTarget& target, double blocks, double threads, double resident, double bytes, double clocks);

}  // namespace anydim::codegen_cuda
