// What kernels of compactions have beyond the corpus: chosen schedules at 0, 1 and around every
// edge of warps, tiles and parts, with none, some and all points chosen.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen_cuda/backend.h"
#include "ir/schedule.h"
#include "tests/codegen_cuda/expect_right.h"

namespace anydim::codegen_cuda::testing {
namespace {

ir::Schedule compact(std::int64_t threads, std::int64_t items, std::int64_t split) {
  return {.name = "compact", .fields = {{"threads", threads}, {"items", items}, {"split", split}}};
}

std::shared_ptr<const TestRegion> mask_region() {
  return make_region(tests::region_case("ChosenPoints_Some").text);
}

// With none, some and all points chosen.
void expect_compacted(const std::shared_ptr<const TestRegion>& region, const std::string& part,
                      const ir::Schedule& schedule, const std::vector<Symbols>& shapes,
                      const CaseOptions& given = {}) {
  for (const std::string share : {"None", "Some", "All"}) {
    SCOPED_TRACE(share);
    expect_right(region, small_target(part), {}, schedule, shapes, 0,
                 tests::region_case("ChosenPoints_" + share).fill, given);
  }
}

TEST(CudaCompact, EveryEdgeOfWarpsAndTiles) {
  const auto region = mask_region();
  for (const std::string part : {"h200", "a100"}) {
    expect_compacted(region, part, compact(64, 2, 1),
                     sizes("n", {0, 1, 31, 32, 33, 64, 127, 128, 129, 1000}));
  }
  expect_compacted(region, "h200", compact(256, 8, 1), sizes("n", {2048, 2049}));
}

TEST(CudaCompact, BlocksShareThePoints) {
  const auto region = mask_region();
  expect_compacted(region, "h200", compact(32, 1, 3),
                   sizes("n", {0, 1, 32, 33, 96, 97, 192, 193, 1000}));
  // More parts than threads that add them, and than tiles.
  expect_compacted(region, "a100", compact(64, 2, 70), sizes("n", {1, 128, 129, 3000}));
  expect_compacted(region, "h200", compact(64, 1, 200), sizes("n", {13000}));
}

TEST(CudaCompact, SurplusBlocksExitAndNothingBehindIsWritten) {
  CaseOptions options;
  options.capacity = {{"n", 3000}};
  for (const ir::Schedule& schedule : {compact(64, 2, 1), compact(64, 2, 7)})
    expect_compacted(mask_region(), "h200", schedule, sizes("n", {0, 1, 130, 2000}), options);
}

TEST(CudaCompact, CandidatesSplitManyPoints) {
  const auto region = mask_region();
  const CudaTarget target = *target_named("h200");
  const auto best = [&](std::int64_t points) {
    const PlanInputs inputs{.target = target, .region = region->region, .form = region->form};
    const auto kind = make_compact_kind();
    const std::vector<std::int64_t> keys{points};
    const auto schedules = kind->candidates(inputs, bucket_of({{points, points, 1}}));
    return *std::min_element(
        schedules.begin(), schedules.end(), [&](const ir::Schedule& a, const ir::Schedule& b) {
          return kind->estimate(inputs, a, keys) < kind->estimate(inputs, b, keys);
        });
  };
  EXPECT_EQ(best(100).field("split"), 1);
  EXPECT_GT(best(100000).field("split"), 1);
}

TEST(CudaCompact, MachineCode) {
  const auto region = mask_region();
  EXPECT_EQ(
      make_cuda_backend({.target = *target_named("h200")})->candidates(region->region, {}).size(),
      3u);
  expect_machine_code({region});
}

TEST(CudaCompact, SchedulesThatDoNotFitAreRefused) {
  const auto region = mask_region();
  const CudaTarget target = small_target("h200");
  const PlanInputs inputs{.target = target, .region = region->region, .form = region->form};
  const auto kind = make_compact_kind();
  EXPECT_EQ(kind->misfit(inputs, compact(48, 1, 1)).value_or(""),
            "a block has 32 to 1024 threads, in whole warps");
  EXPECT_EQ(kind->misfit(inputs, compact(64, 17, 1)).value_or(""),
            "a thread takes 1 to 16 points of a tile");
  EXPECT_EQ(kind->misfit(inputs, compact(64, 1, 0)).value_or(""),
            "1 to 1024 blocks share the points");
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
