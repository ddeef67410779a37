// Running sums and scatters: every candidate at extents 0, 1 and around every edge of blocks and
// tiles, against the reference evaluator.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/schedule.h"
#include "tests/codegen_cuda/expect_right.h"

namespace anydim::codegen_cuda::testing {
namespace {

std::vector<Symbols> pairs(const std::vector<std::int64_t>& rows,
                           const std::vector<std::int64_t>& columns) {
  std::vector<Symbols> result;
  for (const std::int64_t n : rows)
    for (const std::int64_t m : columns) result.push_back({{"n", n}, {"m", m}});
  return result;
}

std::shared_ptr<const TestRegion> running_sum(const std::string& dtype, int axis, bool exclusive,
                                              bool reverse) {
  return make_region(fmt::format(R"(
fn @main(%x: Tensor[(n, m), {0}]) -> Tensor[(n, m), {0}]
  where n in [0, 100000], m in [0, 100000] {{
  %y = cumulative_sum(%x) {{axis = {1}, exclusive = {2}, reverse = {3}}}
  return %y
}})",
                                 dtype, axis, exclusive ? 1 : 0, reverse ? 1 : 0));
}

TEST(CudaOrdered, RunningSumsAlongRows) {
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true})
      expect_right(running_sum("f32", 1, exclusive, reverse), {},
                   pairs({0, 1, 3}, {0, 1, 31, 33, 1023, 1025, 2500}));
}

TEST(CudaOrdered, RunningSumsAcrossRows) {
  expect_right(running_sum("f32", 0, false, false), {}, pairs({0, 1, 65}, {0, 1, 33}));
}

TEST(CudaOrdered, RunningSumsOfEveryType) {
  for (const std::string dtype : {"f64", "f16", "bf16", "i64", "i8", "u32"}) {
    SCOPED_TRACE(dtype);
    const double tolerance = dtype == "bf16"  ? 2e-2
                             : dtype == "f16" ? 2e-3
                             : dtype == "f64" ? 1e-12
                                              : 0;
    expect_right(running_sum(dtype, 1, false, false), {}, pairs({2}, {1, 300}), tolerance);
  }
}

// Few rows that are long: blocks share one, in parts of whole tiles.
TEST(CudaOrdered, LongRowsAreSplitBetweenBlocks) {
  const auto region = running_sum("f32", 1, true, true);
  const auto schedules =
      candidates(*region, small_target("h200"), bucket_of({{0, 2, 1}, {0, 100000, 1}}));
  EXPECT_TRUE(std::any_of(schedules.begin(), schedules.end(), [](const ir::Schedule& schedule) {
    return schedule.field("split") > 1;
  }));
  const ir::Schedule split{
      .name = "ordered",
      .fields = {{"threads", 64}, {"items", 2}, {"split", 5}, {"owners", 1}, {"vector", 1}}};
  expect_right(region, small_target("h200"), {}, split,
               pairs({0, 1, 3}, {0, 1, 127, 128, 129, 640, 641, 3000}));
  expect_right(running_sum("i8", 1, false, false), small_target("a100"), {}, split,
               pairs({2}, {640, 999}), 0);
}

TEST(CudaOrdered, ArithmeticAroundARunningSum) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, m), f32], %s: Tensor[(m), f32]) -> (Tensor[(m, n), f32], Tensor[(n, m), f16])
  where n in [0, 500], m in [0, 500] {
  %scaled = mul(%x, %s)
  %sum = cumulative_sum(%scaled) {axis = -1}
  %positive = relu(%sum)
  %turned = transpose(%positive)
  %half = cast(%sum) {to = f16}
  return %turned, %half
})");
  expect_right(region, {}, pairs({1, 3}, {0, 1, 37, 260}), 1e-3);
}

TEST(CudaOrdered, SurplusBlocksExit) {
  const auto region = running_sum("f32", 1, false, false);
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

// Indices in range, counted from either end, with many repetitions.
void draw_indices(ir::Tensor& indices, std::int64_t extent, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::int64_t i = 0; i < indices.elements(); ++i)
    indices.set_integer(i,
                        std::uniform_int_distribution<std::int64_t>(-extent, extent - 1)(random));
}

// Parameters x, i (indices below `extent` of x), u. The order of updates is part of what is asked:
// the last one stays, and sums round in order.
void expect_scatter(const std::shared_ptr<const TestRegion>& region,
                    const std::vector<Symbols>& shapes,
                    const std::function<std::int64_t(const Symbols&)>& extent) {
  for (const std::string part : {"h200", "a100"}) {
    const CudaTarget target = small_target(part);
    auto schedules = candidates(*region, target, {});
    if (part == "a100") schedules.resize(1);
    for (const ir::Schedule& schedule : schedules) {
      const KernelCase kernel = compiled(region, target, {}, schedule);
      const ptx::Module module = ptx::parse_ptx(kernel.ptx);
      CaseOptions options;
      options.machine.architecture = target.architecture;
      for (const Symbols& symbols : shapes) {
        auto inputs = real_inputs(*region, symbols, 7);
        draw_indices(inputs[1], extent(symbols), 3);
        const CaseRun run = run_case(kernel, module, symbols, inputs, options);
        std::string where = target.architecture + " " + to_string(schedule);
        for (const auto& [name, value] : symbols) where += " " + name + "=" + std::to_string(value);
        ASSERT_EQ(run.findings, "") << where;
        ASSERT_EQ(run.error.check, -1) << where;
        ASSERT_EQ(compare(run.outputs, reference(*region, inputs)), "") << where;
      }
    }
  }
}

TEST(CudaOrdered, ScatterOfElementsKeepsTheOrderOfUpdates) {
  for (const std::string reduction : {"none", "add", "min"}) {
    SCOPED_TRACE(reduction);
    const auto region = make_region(fmt::format(R"(
fn @main(%x: Tensor[(n, m), f32], %i: Tensor[(k, m), i64], %u: Tensor[(k, m), f32]) -> Tensor[(n, m), f32]
  where n in [0, 500], m in [0, 500], k in [0, 500] {{
  %y = scatter_elements(%x, %i, %u) {{axis = 0, reduction = "{}"}}
  return %y
}})",
                                                reduction));
    expect_scatter(region,
                   {{{"n", 1}, {"m", 1}, {"k", 0}},
                    {{"n", 1}, {"m", 1}, {"k", 1}},
                    {{"n", 5}, {"m", 3}, {"k", 33}},
                    {{"n", 9}, {"m", 0}, {"k", 2}}},
                   [](const Symbols& symbols) { return symbols.at("n"); });
  }
}

TEST(CudaOrdered, ScatterOfFewerElementsThanRows) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, m), i32], %i: Tensor[(k, q), i32], %u: Tensor[(k, q), i32]) -> Tensor[(n, m), i32]
  where n in [0, 500], m in [0, 500], k in [0, 500], q in [0, 500] {
  %y = scatter_elements(%x, %i, %u) {axis = 1, reduction = "add"}
  return %y
})");
  expect_scatter(
      region,
      {{{"n", 4}, {"m", 7}, {"k", 3}, {"q", 20}}, {{"n", 3}, {"m", 70}, {"k", 3}, {"q", 9}}},
      [](const Symbols& symbols) { return symbols.at("m"); });
}

TEST(CudaOrdered, ScatterOfSlices) {
  for (const std::string dtype : {"bf16", "i64", "bool"}) {
    SCOPED_TRACE(dtype);
    const auto region = make_region(fmt::format(R"(
fn @main(%x: Tensor[(n, 24), {0}], %i: Tensor[(k, 1), i64], %u: Tensor[(k, 24), {0}]) -> Tensor[(n, 24), {0}]
  where n in [0, 500], k in [0, 500] {{
  %y = scatter_nd(%x, %i, %u) {{reduction = "{1}"}}
  return %y
}})",
                                                dtype, dtype == "bool" ? "none" : "add"));
    expect_scatter(region, {{{"n", 1}, {"k", 0}}, {{"n", 6}, {"k", 1}}, {{"n", 6}, {"k", 40}}},
                   [](const Symbols& symbols) { return symbols.at("n"); });
  }
}

// Two addressed dims, and no dim left to spread over.
TEST(CudaOrdered, ScatterOfSingleElementsByTwoIndices) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, n), f32], %i: Tensor[(b, k, 2), i64], %u: Tensor[(b, k), f32]) -> Tensor[(n, n), f32]
  where n in [0, 500], b in [0, 500], k in [0, 500] {
  %y = scatter_nd(%x, %i, %u)
  return %y
})");
  expect_scatter(region,
                 {{{"n", 1}, {"b", 1}, {"k", 1}},
                  {{"n", 3}, {"b", 2}, {"k", 0}},
                  {{"n", 5}, {"b", 3}, {"k", 17}}},
                 [](const Symbols& symbols) { return symbols.at("n"); });
}

TEST(CudaOrdered, AnIndexOutOfRangeIsReported) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, 4), f32], %i: Tensor[(k, 1), i64], %u: Tensor[(k, 4), f32]) -> Tensor[(n, 4), f32]
  where n in [1, 500], k in [0, 500] {
  %y = scatter_nd(%x, %i, %u)
  return %y
})");
  const Symbols symbols{{"n", 3}, {"k", 2}};
  auto inputs = real_inputs(*region, symbols);
  draw_indices(inputs[1], 3, 1);
  inputs[1].set_integer(1, 3);
  const CudaTarget target = small_target("h200");
  for (const ir::Schedule& schedule : candidates(*region, target, {})) {
    const KernelCase kernel = compiled(region, target, {}, schedule);
    const CaseRun run = run_case(kernel, ptx::parse_ptx(kernel.ptx), symbols, inputs);
    EXPECT_EQ(run.findings, "");
    EXPECT_EQ(run.error.check, 0);
    EXPECT_EQ(run.error.value, 3);
  }
}

// Registers hold what threads keep: no spills and no local memory, on three architectures.
TEST(CudaOrdered, MachineCode) {
  const std::vector<std::shared_ptr<const TestRegion>> regions{
      running_sum("f32", 1, false, true), running_sum("bf16", 1, true, false), make_region(R"(
fn @main(%x: Tensor[(n, 768), bf16], %i: Tensor[(k, 1), i64], %u: Tensor[(k, 768), bf16]) -> Tensor[(n, 768), bf16]
  where n in [0, 100000], k in [0, 100000] {
  %y = scatter_nd(%x, %i, %u) {reduction = "add"}
  return %y
})")};
  expect_machine_code(regions);
}

TEST(CudaOrdered, EstimatesFollowTheSizes) {
  const auto region = running_sum("f32", 1, false, false);
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
