// Machine code of attention: NVRTC's report holds no fault for any schedule that a table may choose, and the instructions are there.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen_cuda/attention_schedule.h"
#include "codegen_cuda/attention_skeletons.h"
#include "codegen_cuda/backend.h"
#include "tests/codegen_cuda/attention_cases.h"

namespace anydim::codegen_cuda::testing {
namespace {

using Region = std::shared_ptr<const TestRegion>;

struct Choice {
  ir::Schedule schedule;
  ir::Bucket bucket;
};

// The cheapest schedule of each bucket between the backend's own edges, for 32 texts; each schedule once.
std::vector<Choice> choices(const ir::Backend& backend, const ir::Region& region) {
  std::vector<Choice> result;
  std::set<std::string> seen;
  std::int64_t low = 1;
  for (const std::int64_t edge : {17, 33, 65, 129, 257, 513}) {
    ir::Bucket bucket;
    std::vector<std::int64_t> keys;
    for (const ir::Dim& key : region.keys) {
      const bool length = key == ir::Dim::symbol("s");
      bucket.intervals.push_back(length ? ir::BucketInterval{low, edge - 1, 1} : ir::BucketInterval{1, 1 << 16, 1});
      keys.push_back(length ? edge - 1 : 32 * 12);
    }
    const auto schedules = backend.candidates(region, bucket);
    const auto best = std::min_element(schedules.begin(), schedules.end(), [&](const ir::Schedule& a, const ir::Schedule& b) {
      return backend.estimate(region, a, keys, 1) < backend.estimate(region, b, keys, 1);
    });
    if (seen.insert(to_string(*best)).second) result.push_back({*best, bucket});
    low = edge;
  }
  return result;
}

TEST(CudaAttentionCode, EncodersInEveryBucket) {
  for (const int depth : {32, 64}) {  // MiniLM's heads and BERT-base's
    const Region region = make_region(merged_attention({.heads = 12, .depth = depth, .mask = AttentionMask::Padding}));
    for (const char* part : {"a100", "h200", "b200"}) {
      const auto backend = make_cuda_backend({.target = *target_named(part), .nvrtc_path = {}});
      for (const Choice& choice : choices(*backend, region->region)) {
        SCOPED_TRACE(fmt::format("{} {} {}", part, depth, to_string(choice.schedule)));
        // A spill or a remark that products were serialised makes compile() throw.
        const ir::CompiledKernel kernel = backend->compile(region->region, choice.bucket, choice.schedule);
        EXPECT_EQ(kernel.resources.spills, 0);
        ASSERT_FALSE(kernel.launches.empty());
        EXPECT_NE(choice.schedule.name, "attention_simt");
      }
    }
  }
}

bool holds(const std::string& ptx, const char* instruction) { return ptx.find(instruction) != std::string::npos; }

TEST(CudaAttentionCode, Instructions) {
  const Region region = make_region(merged_attention({.heads = 2, .depth = 64}));
  const std::string narrow = attention_kernel(region, "a100", "attention_mma warps=4 points=1 tiles=1 keys=64 stages=2").ptx;
  for (const char* instruction :
       {"mma.sync.aligned.m16n8k16.row.col.f32.bf16", "ldmatrix.sync.aligned.m8n8.x4", "cp.async.cg.shared.global", "ex2.approx"})
    EXPECT_TRUE(holds(narrow, instruction)) << instruction;
  const std::string wide = attention_kernel(region, "h200", "attention_wgmma groups=2 keys=128 stages=2").ptx;
  for (const char* instruction : {"wgmma.mma_async.sync.aligned.m64n128k16", "wgmma.mma_async.sync.aligned.m64n64k16",
                                  "cp.async.bulk.tensor.2d", "setmaxnreg.dec.sync.aligned.u32", "griddepcontrol.wait", "fence.proxy.async"})
    EXPECT_TRUE(holds(wide, instruction)) << instruction;
}

// What a schedule says of itself holds for the kernel.
TEST(CudaAttentionCode, SharedMemoryAndRegisters) {
  const Region region = make_region(merged_attention({.heads = 2, .depth = 128}));
  const CudaTarget target = *target_named("h200");
  const PlanInputs inputs{target, region->region, region->form};
  const auto wgmma = make_attention_wgmma_skeleton(), mma = make_attention_mma_skeleton();
  for (const auto* skeleton : {wgmma.get(), mma.get()}) {
    for (const ir::Schedule& schedule : skeleton->candidates(inputs, {})) {
      EXPECT_EQ(skeleton->misfit(inputs, schedule), std::nullopt) << to_string(schedule);
      const EmittedKernel kernel = skeleton->emit(inputs, {}, schedule, false);
      EXPECT_LE(kernel.launches.at(0).shared_bytes, target.shared_per_block);
    }
  }
  for (const std::int64_t groups : {1, 2, 3}) {
    const AttentionWgmmaSchedule fields{.groups = groups, .keys = 128, .stages = 2};
    // Registers at launch: 65,536 shared out evenly, rounded down to 8 a thread; the trade may not ask for more.
    const std::int64_t pool = 65536 / fields.intended_blocks() / fields.threads() / 8 * 8 * fields.threads();
    EXPECT_LE(128 * (fields.fetching_registers() + groups * fields.computing_registers()), pool);
  }
  EXPECT_NE(mma->misfit(inputs, ir::parse_schedule("attention_mma warps=4 points=1 tiles=2 keys=128 stages=2")), std::nullopt);
  EXPECT_NE(mma->misfit(inputs, ir::parse_schedule("attention_mma warps=4 points=1 tiles=1 keys=128 stages=4")), std::nullopt);
  EXPECT_NE(wgmma->misfit(inputs, ir::parse_schedule("attention_wgmma groups=3 keys=256 stages=2")), std::nullopt);
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
