// anydim worker with a code generator many of whose schedules are faulty. usage: faulty_worker VARIANTS
#include <cstdlib>
#include <iostream>

#include "tests/tuner/faulty_backend.h"
#include "tools/worker_cases.h"

int main(int argc, char** argv) {
  using namespace anydim;
  if (argc != 2) return 2;
  CompileOptions options;
  options.threads = 2;
  options.keep_kernels = false;
  const std::int64_t variants = std::atoll(argv[1]);
  tools::CaseRunner runner(options, [&](bool) {
    CompileTarget target = make_target(options);
    target.backend = std::make_shared<tuner::testing::FaultyBackend>(target.backend, variants);
    return target;
  });
  tools::run_worker(runner, std::cin);
}
