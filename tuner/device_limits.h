// What this machine's processor can do at most, by measurement: how fast its threads multiply and
// add in registers, and how fast they read memory.
#pragma once

#include <utility>
#include <vector>

#include "runtime/worker_pool.h"

namespace anydim::tuner {

struct DeviceLimits {
  // Multiply-adds a second, all threads together; 0: not known. narrow: bf16 operands with f32
  // sums, where vector instructions for that are there (tile registers are not probed).
  double multiply_adds = 0, narrow_multiply_adds = 0;
  // Bytes read a second where so many bytes are read over and over, by ascending bytes; the rate
  // never rises.
  std::vector<std::pair<double, double>> reads{};

  // Of the least size that was probed and is not below; beyond the greatest, the greatest's. 0: not
  // known.
  double read_rate(double bytes) const;
};

// Takes about a quarter of a second. Nothing is known of arithmetic on processors other than x86-64
// with AVX2.
DeviceLimits measure_limits(runtime::WorkerPool& pool);

}  // namespace anydim::tuner
