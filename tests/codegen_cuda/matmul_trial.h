// One product on the PTX interpreter: small integers, so that results agree bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "codegen_cuda/backend.h"
#include "codegen_cuda/matmul/matmul_kinds.h"
#include "ir/schedule.h"
#include "tests/codegen_cuda/kernel_case.h"
#include "tests/codegen_cuda/matmul_cases.h"
#include "tests/support/region_cases.h"

namespace anydim::codegen_cuda::testing {

inline constexpr double function_tolerance = 1e-5;  // of epilogues with functions, on reals

inline std::unique_ptr<KernelKind> kernel_kind_of(const ir::Schedule& schedule) {
  if (schedule.name == "matmul_mma") return make_matmul_mma_kind();
  if (schedule.name == "matmul_wgmma") return make_matmul_wgmma_kind();
  return make_matmul_simt_kind();
}

struct Trial {
  std::string part, schedule, region;
  std::vector<Symbols> shapes;
  Symbols capacity{};
  double tolerance = 0;
  bool checked = false;
  bool every_timing = false;
  std::vector<ir::BucketInterval> bucket{{}};
  std::vector<std::uint32_t> weights{1};  // parameters; matmul_text's right operand
};

inline void expect_right(const Trial& trial) {
  SCOPED_TRACE(trial.part + " " + trial.schedule + "\n" + trial.region);
  const ir::Schedule schedule = ir::parse_schedule(trial.schedule);
  const CudaTarget target = small_target(trial.part);
  const KernelCase kernel =
      build_case(make_region(trial.region, trial.weights), target, *kernel_kind_of(schedule),
                 bucket_of(trial.bucket), schedule, trial.checked);
  const ptx::Module module = ptx::parse_ptx(kernel.ptx);
  std::vector<ptx::Timing> timings{ptx::Timing::ResultsLate};
  if (trial.every_timing)
    timings = {ptx::Timing::ResultsLate, ptx::Timing::OperandsLate, ptx::Timing::Random};
  for (const ptx::Timing timing : timings) {
    for (const Symbols& symbols : trial.shapes) {
      CaseOptions options;
      options.machine.architecture = target.architecture;
      options.machine.timing = timing;
      options.capacity = trial.capacity;
      std::string at;
      for (const auto& [name, value] : symbols) at += fmt::format(" {}={}", name, value);
      EXPECT_EQ(check_case(kernel, module, symbols, options, trial.tolerance), "")
          << "at" << at << ", timing " << static_cast<int>(timing);
    }
  }
}

// A large product of an encoder (x 384 by 384 x 1536, bf16, bias and GELU), assembled for an H200:
// expects no spills, no remark and no stack.
inline ir::CompiledKernel assembled_encoder_product(const std::string& schedule) {
  const auto region = make_region(matmul_text({.columns = 1536,
                                               .depth = 384,
                                               .dtype = "bf16",
                                               .result = "bf16",
                                               .epilogue = MatmulEpilogue::BiasGelu}));
  ir::CompiledKernel kernel =
      make_cuda_backend({.target = *target_named("h200")})
          ->compile(region->region, bucket_of({{1, 8192, 1}}), ir::parse_schedule(schedule));
  EXPECT_EQ(kernel.resources.spills, 0) << schedule;
  EXPECT_EQ(kernel.resources.remarks, "") << schedule;
  EXPECT_EQ(kernel.resources.stack_bytes, 0) << schedule;
  return kernel;
}

inline std::vector<Symbols> rows(const std::vector<std::int64_t>& values) {
  std::vector<Symbols> result;
  for (const std::int64_t value : values) result.push_back({{"n", value}});
  return result;
}

}  // namespace anydim::codegen_cuda::testing
