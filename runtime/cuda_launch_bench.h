// Launches on a GPU by the same path as calls' (runtime/cuda_launch_queue.h), in device memory
// between bands of a pattern. Operands cannot be kept from being written there.
#pragma once

#include <memory>

#include "runtime/cuda_context.h"
#include "runtime/launch_bench.h"

namespace anydim::runtime::cuda {

std::unique_ptr<LaunchBench> make_launch_bench(std::shared_ptr<DeviceContext> context,
                                               const ir::Program& program);  // outlives it

}  // namespace anydim::runtime::cuda
