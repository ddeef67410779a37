// Sorts: every candidate around the edges of tiles and merged runs, against the reference
// evaluator, which keeps equal keys in order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "ir/schedule.h"
#include "tests/codegen_cuda/expect_right.h"

namespace anydim::codegen_cuda::testing {
namespace {

ir::Schedule sort(std::int64_t threads, std::int64_t items) {
  return {.name = "sort", .fields = {{"threads", threads}, {"items", items}}};
}

std::shared_ptr<const TestRegion> sorted_rows(const std::string& dtype, bool descending) {
  return make_region(fmt::format(R"(
fn @main(%x: Tensor[(m, n), {}]) -> Tensor[(m, n), i64]
  where m in [0, 1000], n in [0, 100000] {{
  %i = argsort(%x) {{descending = {}}}
  return %i
}})",
                                 dtype, descending ? 1 : 0));
}

// Few different numbers, so that many are equal; floats also have both zeros, both infinities and
// two NaNs.
std::vector<ir::Tensor> keys(const TestRegion& region, const Symbols& symbols) {
  std::vector<ir::Tensor> inputs = integer_inputs(region, symbols);
  std::mt19937 random(5);
  constexpr double infinity = std::numeric_limits<double>::infinity(),
                   nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double special[] = {0.0, -0.0, infinity, -infinity, nan, -nan};
  for (ir::Tensor& input : inputs) {
    for (std::int64_t i = 0; i < input.elements(); ++i) {
      const auto draw = static_cast<std::int64_t>(random() % 40);
      if (ir::is_float(input.dtype()))
        input.set_real(i, draw < 6 ? special[draw] : static_cast<double>(draw - 20) / 4);
      else
        input.set_integer(i, input.dtype() == ir::DType::Bool ? draw % 2
                             : ir::is_signed(input.dtype())   ? draw - 20
                                                              : draw);
    }
  }
  return inputs;
}

void expect_sorted(const std::shared_ptr<const TestRegion>& region, const std::string& part,
                   const ir::Schedule& schedule, const std::vector<Symbols>& shapes,
                   const CaseOptions& given = {}, const ir::Bucket& bucket = {}) {
  const CudaTarget target = small_target(part);
  const KernelCase kernel = compiled(region, target, bucket, schedule);
  const ptx::Module module = ptx::parse_ptx(kernel.ptx);
  CaseOptions options = given;
  options.machine.architecture = target.architecture;
  for (const Symbols& symbols : shapes) {
    const std::vector<ir::Tensor> inputs = keys(*region, symbols);
    const CaseRun run = run_case(kernel, module, symbols, inputs, options);
    std::string where = part + " " + to_string(schedule);
    for (const auto& [name, value] : symbols) where += " " + name + "=" + std::to_string(value);
    ASSERT_EQ(run.findings, "") << where;
    ASSERT_EQ(run.error.check, -1) << where;
    ASSERT_EQ(compare(run.outputs, reference(*region, inputs)), "") << where;
  }
}

std::vector<Symbols> rows_of(std::int64_t rows, const std::vector<std::int64_t>& lengths) {
  std::vector<Symbols> result;
  for (const std::int64_t n : lengths) result.push_back({{"m", rows}, {"n", n}});
  return result;
}

TEST(CudaSort, EveryEdgeOfTilesAndRuns) {
  const auto region = sorted_rows("f32", false);
  expect_sorted(region, "h200", sort(32, 4),
                rows_of(3, {0, 1, 2, 5, 127, 128, 129, 255, 256, 257, 385, 513, 1100}));
  expect_sorted(region, "a100", sort(32, 2), rows_of(2, {1, 64, 65, 600}));
  expect_sorted(region, "h200", sort(64, 1), rows_of(1, {0, 63, 64, 65, 300}));
  expect_sorted(region, "h200", sort(256, 8), rows_of(1, {100, 2048, 2049, 4500}));
  expect_sorted(region, "h200", sort(32, 4), rows_of(0, {3}));
}

TEST(CudaSort, KeysOfEveryType) {
  for (const std::string dtype :
       {"f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"}) {
    SCOPED_TRACE(dtype);
    const bool descending = dtype == "f64" || dtype == "i64" || dtype == "u8";
    expect_sorted(sorted_rows(dtype, descending), "h200", sort(32, 2), rows_of(2, {90, 150}));
  }
  expect_sorted(sorted_rows("f32", true), "h200", sort(32, 2), rows_of(3, {0, 64, 65, 300}));
}

// Only the first of each row, at the edges of tiles and of merged runs.
TEST(CudaSort, TheFirstOfEachRow) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(m, n), f32], %y: Tensor[(k), bool]) -> Tensor[(m, k), i64]
  where m in [0, 1000], n in [0, 100000], k in [0, 100000] {
  %i = argsort(%x, dim(k)) {descending = 1}
  return %i
})");
  std::vector<Symbols> shapes;
  for (const auto& [n, k] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 0}, {1, 1}, {5, 0}, {64, 64}, {65, 3}, {130, 64}, {300, 65}, {300, 200}, {600, 1}})
    shapes.push_back({{"m", 2}, {"n", n}, {"k", k}});
  expect_sorted(region, "h200", sort(32, 2), shapes);
  expect_sorted(region, "a100", sort(32, 4), shapes);
}

// A bucket of short rows: no merging is compiled, and small blocks are candidates.
TEST(CudaSort, ShortRows) {
  const auto region = sorted_rows("f32", false);
  const ir::Bucket bucket = bucket_of({{0, 1000, 1}, {0, 128, 1}});
  const auto schedules = candidates(*region, small_target("h200"), bucket);
  EXPECT_EQ(schedules.size(), 3u);
  for (const ir::Schedule& schedule : schedules) {
    EXPECT_EQ(compiled(region, small_target("h200"), bucket, schedule).launches.size(), 1u);
    expect_sorted(region, "h200", schedule, rows_of(5, {0, 1, 31, 100, 128}), {}, bucket);
  }
}

TEST(CudaSort, AlongOtherAxesAndOfComputedKeys) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, 3, m), f32], %b: Tensor[(m), f32]) -> Tensor[(n, 3, m), i64]
  where m in [0, 1000], n in [0, 100000] {
  %a = abs(%x)
  %s = add(%a, %b)
  %i = argsort(%s) {axis = 0}
  return %i
})");
  expect_sorted(region, "h200", sort(32, 2), rows_of(2, {0, 1, 64, 65, 200}));
  expect_sorted(region, "a100", sort(32, 2), rows_of(3, {140}));
}

// Slices are compared element by element.
TEST(CudaSort, Slices) {
  for (const std::string dtype : {"i64", "f32", "bool"}) {
    SCOPED_TRACE(dtype);
    const auto region = make_region(fmt::format(R"(
fn @main(%x: Tensor[(n, m), {}]) -> Tensor[(n), i64]
  where m in [0, 1000], n in [0, 1200] {{
  %i = argsort(%x) {{axis = 0, slices = 1}}
  return %i
}})",
                                                dtype));
    for (const ir::Schedule& schedule : {sort(32, 2), sort(64, 4)})
      expect_sorted(region, "h200", schedule,
                    {{{"m", 0}, {"n", 70}}, {{"m", 1}, {"n", 65}}, {{"m", 3}, {"n", 140}}});
  }
}

TEST(CudaSort, SurplusLaunchesAndBlocksDoNothing) {
  CaseOptions options;
  options.capacity = {{"m", 3}, {"n", 700}};
  for (const std::int64_t n : {0, 1, 64, 65, 128, 129, 600})
    expect_sorted(sorted_rows("f32", false), "h200", sort(32, 2), {{{"m", 2}, {"n", n}}}, options);
}

TEST(CudaSort, MachineCode) {
  const std::vector<std::shared_ptr<const TestRegion>> regions{
      sorted_rows("f32", true), sorted_rows("i64", false), make_region(R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n), i64]
  where m in [0, 1000], n in [0, 100000] {
  %i = argsort(%x) {axis = 0, slices = 1}
  return %i
})")};
  expect_machine_code(regions);
}

TEST(CudaSort, EstimatesFollowTheSizes) {
  const auto region = sorted_rows("f32", false);
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
