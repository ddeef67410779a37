// anydim worker with a code generator many of whose schedules are faulty. usage: faulty_worker
// VARIANTS
#include <cstdlib>

#include "api/tuning_worker.h"
#include "tests/tuner/faulty_backend.h"

int main(int argc, char** argv) {
  using namespace anydim;
  if (argc != 2) return 2;
  const std::int64_t variants = std::atoll(argv[1]);
  serve_tuning([&](const CompileOptions& options) {
    CompileTarget target = make_target(options);
    target.backend = std::make_shared<tuner::testing::FaultyBackend>(target.backend, variants);
    return target;
  });
}
