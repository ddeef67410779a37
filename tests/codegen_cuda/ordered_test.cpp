// What kernels of running sums and scatters have beyond the corpus.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/schedule.h"
#include "tests/codegen_cuda/expect_right.h"

namespace anydim::codegen_cuda::testing {
namespace {

std::shared_ptr<const TestRegion> running_sum(const std::string& dtype, bool exclusive,
                                              bool reverse) {
  return make_region(fmt::format(R"(
fn @main(%x: Tensor[(n, m), {0}]) -> Tensor[(n, m), {0}]
  where n in [0, 100000], m in [0, 100000] {{
  %y = cumulative_sum(%x) {{axis = 1, exclusive = {1}, reverse = {2}}}
  return %y
}})",
                                 dtype, exclusive ? 1 : 0, reverse ? 1 : 0));
}

// Few rows that are long: blocks share one, in parts of whole tiles.
TEST(CudaOrdered, LongRowsAreSplitBetweenBlocks) {
  const auto region = running_sum("f32", true, true);
  const auto schedules =
      candidates(*region, small_target("h200"), bucket_of({{0, 2, 1}, {0, 100000, 1}}));
  EXPECT_TRUE(std::any_of(schedules.begin(), schedules.end(), [](const ir::Schedule& schedule) {
    return schedule.field("split") > 1;
  }));
  const ir::Schedule split{
      .name = "ordered",
      .fields = {{"threads", 64}, {"items", 2}, {"split", 5}, {"owners", 1}, {"vector", 1}}};
  expect_right(region, small_target("h200"), {}, split,
               pairs("n", {0, 1, 3}, "m", {0, 1, 127, 128, 129, 640, 641, 3000}));
  expect_right(running_sum("i8", false, false), small_target("a100"), {}, split,
               pairs("n", {2}, "m", {640, 999}), 0);
}

TEST(CudaOrdered, SurplusBlocksExit) {
  const auto region = running_sum("f32", false, false);
  const CudaTarget target = small_target("h200");
  for (const ir::Schedule& schedule : candidates(*region, target, {})) {
    CaseOptions options;
    options.capacity = {{"n", 40}, {"m", 300}};
    EXPECT_EQ(check_case(compiled(region, target, {}, schedule),
                         ptx::parse_ptx(compiled(region, target, {}, schedule).ptx),
                         {{"n", 3}, {"m", 70}}, options, 2e-5),
              "")
        << to_string(schedule);
  }
}

// Registers hold what threads keep: no spills and no local memory, on three architectures.
TEST(CudaOrdered, MachineCode) {
  const std::vector<std::shared_ptr<const TestRegion>> regions{
      running_sum("f32", false, true), running_sum("bf16", true, false), make_region(R"(
fn @main(%x: Tensor[(n, 768), bf16], %i: Tensor[(k, 1), i64], %u: Tensor[(k, 768), bf16]) -> Tensor[(n, 768), bf16]
  where n in [0, 100000], k in [0, 100000] {
  %y = scatter_nd(%x, %i, %u) {reduction = "add"}
  return %y
})")};
  expect_machine_code(regions);
}

TEST(CudaOrdered, EstimatesFollowTheSizes) {
  const auto region = running_sum("f32", false, false);
  const CudaTarget target = *target_named("h200");
  const PlanInputs inputs{.target = target, .region = region->region, .form = region->form};
  const auto kind = make_ordered_kind();
  const auto best = [&](std::int64_t rows, std::int64_t columns) {
    const auto schedules =
        kind->candidates(inputs, bucket_of({{rows, rows, 1}, {columns, columns, 1}}));
    const std::vector<std::int64_t> keys{rows, columns};
    return *std::min_element(
        schedules.begin(), schedules.end(), [&](const ir::Schedule& a, const ir::Schedule& b) {
          return kind->estimate(inputs, a, keys) < kind->estimate(inputs, b, keys);
        });
  };
  EXPECT_GT(best(1, 100000).field("split"), 1);
  EXPECT_EQ(best(1000, 1000).field("split"), 1);
  EXPECT_GT(best(1000, 1000).field("items"), 0);
  EXPECT_EQ(best(100000, 2).field("items"), 0);
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
