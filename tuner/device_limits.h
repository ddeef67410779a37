// What this machine's processor can do at most, by measurement: how fast its threads multiply and
// add in registers, and how fast they read memory.
#pragma once

#include "ir/device_limits.h"
#include "runtime/worker_pool.h"

namespace anydim::tuner {

using ir::DeviceLimits;

// Takes about a quarter of a second. Nothing is known of arithmetic on processors other than x86-64
// with AVX2. Of narrow arithmetic: vector instructions for bf16 where they are there (tile
// registers are not probed).
DeviceLimits measure_limits(runtime::WorkerPool& pool);

}  // namespace anydim::tuner
