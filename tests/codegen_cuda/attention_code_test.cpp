// Instructions and limits of attention's schedules; machine_code_test looks at every kernel of
// whole encoders.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen_cuda/attention/attention_kinds.h"
#include "codegen_cuda/attention/attention_schedule.h"
#include "tests/codegen_cuda/attention_cases.h"

namespace anydim::codegen_cuda::testing {
namespace {

bool holds(const std::string& ptx, const char* instruction) {
  return ptx.find(instruction) != std::string::npos;
}

TEST(CudaAttentionCode, Instructions) {
  const auto region = make_region(merged_attention({.heads = 2, .depth = 64}));
  const std::string narrow =
      attention_kernel(region, "a100", "attention_mma warps=4 points=1 tiles=1 keys=64 stages=2")
          .ptx;
  for (const char* instruction :
       {"mma.sync.aligned.m16n8k16.row.col.f32.bf16", "ldmatrix.sync.aligned.m8n8.x4",
        "cp.async.cg.shared.global", "ex2.approx"})
    EXPECT_TRUE(holds(narrow, instruction)) << instruction;
  const std::string wide =
      attention_kernel(region, "h200", "attention_wgmma groups=2 keys=128 stages=2").ptx;
  for (const char* instruction :
       {"wgmma.mma_async.sync.aligned.m64n128k16", "wgmma.mma_async.sync.aligned.m64n64k16",
        "cp.async.bulk.tensor.2d", "setmaxnreg.dec.sync.aligned.u32", "griddepcontrol.wait",
        "fence.proxy.async"})
    EXPECT_TRUE(holds(wide, instruction)) << instruction;
}

// What a schedule says of itself holds for the kernel.
TEST(CudaAttentionCode, SharedMemoryAndRegisters) {
  const auto region = make_region(merged_attention({.heads = 2, .depth = 128}));
  const CudaTarget target = *target_named("h200");
  const PlanInputs inputs{target, region->region, region->form};
  const auto wgmma = make_attention_wgmma_kind(), mma = make_attention_mma_kind();
  for (const auto* kind : {wgmma.get(), mma.get()}) {
    for (const ir::Schedule& schedule : kind->candidates(inputs, {})) {
      EXPECT_EQ(kind->misfit(inputs, schedule), std::nullopt) << to_string(schedule);
      const EmittedKernel kernel = kind->emit(inputs, {}, schedule, false);
      EXPECT_LE(kernel.launches.at(0).shared_bytes, target.shared_per_block);
    }
  }
  for (const std::int64_t groups : {1, 2, 3}) {
    const AttentionWgmmaSchedule fields{.groups = groups, .keys = 128, .stages = 2};
    // Registers at launch: 65,536 shared out evenly, rounded down to 8 a thread; the trade may not
    // ask for more.
    const std::int64_t pool =
        65536 / fields.intended_blocks() / fields.threads() / 8 * 8 * fields.threads();
    EXPECT_LE(128 * (fields.fetching_registers() + groups * fields.computing_registers()), pool);
  }
  EXPECT_NE(mma->misfit(inputs, ir::parse_schedule(
                                    "attention_mma warps=4 points=1 tiles=2 keys=128 stages=2")),
            std::nullopt);
  EXPECT_NE(mma->misfit(inputs, ir::parse_schedule(
                                    "attention_mma warps=4 points=1 tiles=1 keys=128 stages=4")),
            std::nullopt);
  EXPECT_NE(wgmma->misfit(inputs, ir::parse_schedule("attention_wgmma groups=3 keys=256 stages=2")),
            std::nullopt);
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
