// What kernels of sorts have beyond the corpus: tiles and merged runs of chosen sizes, at their
// edges.
#include <gtest/gtest.h>

#include "ir/schedule.h"
#include "tests/codegen_cuda/expect_right.h"

namespace anydim::codegen_cuda::testing {
namespace {

ir::Schedule sort(std::int64_t threads, std::int64_t items) {
  return {.name = "sort", .fields = {{"threads", threads}, {"items", items}}};
}

std::shared_ptr<const TestRegion> corpus_region(const std::string& name) {
  return make_region(tests::region_case(name).text);
}

void expect_sorted(const std::shared_ptr<const TestRegion>& region, const std::string& part,
                   const ir::Schedule& schedule, const std::vector<Symbols>& shapes,
                   const CaseOptions& given = {}, const ir::Bucket& bucket = {}) {
  expect_right(region, small_target(part), bucket, schedule, shapes, 0, tests::fill_ties, given);
}

std::vector<Symbols> rows_of(std::int64_t rows, const std::vector<std::int64_t>& lengths) {
  return pairs("m", {rows}, "n", lengths);
}

TEST(CudaSort, EveryEdgeOfTilesAndRuns) {
  const auto region = corpus_region("SortOfRows");
  expect_sorted(region, "h200", sort(32, 4),
                rows_of(3, {0, 1, 2, 5, 127, 128, 129, 255, 256, 257, 385, 513, 1100}));
  expect_sorted(region, "a100", sort(32, 2), rows_of(2, {1, 64, 65, 600}));
  expect_sorted(region, "h200", sort(64, 1), rows_of(1, {0, 63, 64, 65, 300}));
  expect_sorted(region, "h200", sort(256, 8), rows_of(1, {100, 2048, 2049, 4500}));
  expect_sorted(region, "h200", sort(32, 4), rows_of(0, {3}));
}

// Only the first of each row, at the edges of tiles and of merged runs.
TEST(CudaSort, TheFirstOfEachRow) {
  const auto region = corpus_region("FirstOfRows");
  std::vector<Symbols> shapes;
  for (const auto& [n, k] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 0}, {1, 1}, {5, 0}, {64, 64}, {65, 3}, {130, 64}, {300, 65}, {300, 200}, {600, 1}})
    shapes.push_back({{"m", 2}, {"n", n}, {"k", k}});
  expect_sorted(region, "h200", sort(32, 2), shapes);
  expect_sorted(region, "a100", sort(32, 4), shapes);
}

// A bucket of short rows: no merging is compiled, and small blocks are candidates.
TEST(CudaSort, ShortRows) {
  const auto region = corpus_region("SortOfRows");
  const ir::Bucket bucket = bucket_of({{0, 1000, 1}, {0, 128, 1}});
  const auto schedules = candidates(*region, small_target("h200"), bucket);
  EXPECT_EQ(schedules.size(), 3u);
  for (const ir::Schedule& schedule : schedules) {
    EXPECT_EQ(compiled(region, small_target("h200"), bucket, schedule).launches.size(), 1u);
    expect_sorted(region, "h200", schedule, rows_of(5, {0, 1, 31, 100, 128}), {}, bucket);
  }
}

// Nothing bounds how many there are but what fits 64 bits: a launch for each doubling of a run.
TEST(CudaSort, RowsOfAnyLength) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(a, b), f32]) -> Tensor[(a*b), i64]
  where a in [0, 3037000499], b in [0, 3037000499] {
  %flat = dyn.reshape(%x, shape(a*b)) {zero_copies = 0}
  %y = argsort(%flat) {axis = 0}
  return %y
})");
  EXPECT_EQ(compiled(region, small_target("h200"), {}, sort(32, 4)).launches.size(), 1u + 63 - 7);
  expect_sorted(region, "h200", sort(32, 4), {{{"a", 20}, {"b", 15}}});
}

TEST(CudaSort, SurplusLaunchesAndBlocksDoNothing) {
  CaseOptions options;
  options.capacity = {{"m", 3}, {"n", 700}};
  for (const std::int64_t n : {0, 1, 64, 65, 128, 129, 600})
    expect_sorted(corpus_region("SortOfRows"), "h200", sort(32, 2), {{{"m", 2}, {"n", n}}},
                  options);
}

TEST(CudaSort, MachineCode) {
  const std::vector<std::shared_ptr<const TestRegion>> regions{
      corpus_region("SortOfLongRows"), corpus_region("SortOfRows_i64_Rising"),
      corpus_region("SortOfSlices_f32")};
  expect_machine_code(regions);
}

TEST(CudaSort, EstimatesFollowTheSizes) {
  const auto region = corpus_region("SortOfRows");
  const CudaTarget target = *target_named("h200");
  const PlanInputs inputs{.target = target, .region = region->region, .form = region->form};
  const auto kind = make_sort_kind();
  const auto seconds = [&](const ir::Schedule& schedule, std::int64_t rows, std::int64_t length) {
    const std::vector<std::int64_t> at{rows, length};
    return kind->estimate(inputs, schedule, at);
  };
  EXPECT_LT(seconds(sort(32, 4), 10000, 60), seconds(sort(256, 8), 10000, 60));
  EXPECT_LT(seconds(sort(256, 8), 1, 2000), seconds(sort(256, 8), 1, 100000));
  EXPECT_EQ(kind->misfit(inputs, sort(96, 4)).value_or(""),
            "threads and the entries of each are powers of two, at most 16 entries");
  EXPECT_EQ(kind->misfit(inputs, sort(1024, 4)).value_or(""), "a tile has at most 3072 entries");
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
