// How a call's launches would spread over numbers of threads that need not be here, by the cost
// model: nothing is measured.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "api/compile.h"
#include "runtime/context.h"

namespace anydim {

struct ThreadScalingOptions {
  std::vector<int> threads;  // each at least 1
  // What memory gives all threads of the machine together, in bytes a second; infinite: each thread
  // gets as much as one alone.
  double memory_bandwidth = std::numeric_limits<double>::infinity();
};

struct LaunchAtThreads {
  std::string schedule;    // that is chosen for so many threads
  std::int64_t tasks = 0;  // 0: there is nothing to do
  double seconds = 0;
  // Speed-up over what is chosen for one thread, divided by the threads; 0 where there is nothing
  // to do.
  double efficiency = 0;
};

struct CallAtThreads {
  int threads = 1;
  std::vector<LaunchAtThreads> launches;  // in the order of those asked about
  double seconds = 0;                     // of all launches
  double efficiency = 0;                  // of all launches together
};

// `launches` of a call of `executable`, which was compiled with `options` for this machine's
// processors. Each is planned anew for each number of threads as compile() would choose without a
// tuning database; kernels for single sizes (the policy `exact`) are planned as their buckets'. A
// kernel is compiled to count its tasks. Throws Error{CommandLine} where the options are for a GPU.
std::vector<CallAtThreads> scale_launches(const runtime::Executable& executable,
                                          const std::vector<runtime::LaunchRecord>& launches,
                                          CompileOptions options,
                                          const ThreadScalingOptions& scaling);

}  // namespace anydim
