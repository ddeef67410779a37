// Launches on this machine's processors, in memory between guard pages.
#pragma once

#include <memory>

#include "runtime/executable.h"
#include "runtime/launch_bench.h"

namespace anydim::runtime {

std::unique_ptr<LaunchBench> make_cpu_launch_bench(const Executable& executable);  // outlives it

}  // namespace anydim::runtime
