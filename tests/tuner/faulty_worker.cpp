// anydim worker with a code generator many of whose schedules are faulty. usage: faulty_worker VARIANTS
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/tuner/faulty_backend.h"
#include "tools/cases.h"
#include "tools/tuning_cases.h"

int main(int argc, char** argv) {
  using namespace anydim;
  if (argc != 2) return 2;
  CompileOptions options;
  options.threads = 2;
  options.keep_kernels = false;
  const std::int64_t variants = std::atoll(argv[1]);
  tools::TuningCases cases(options, [&] {
    CompileTarget target = make_target(options);
    target.backend = std::make_shared<tuner::testing::FaultyBackend>(target.backend, variants);
    return target;
  });
  tools::run_cases([&](const nlohmann::json& wanted, const std::function<void()>& compiled) { return cases.run(wanted, compiled); },
                   std::cin);
}
