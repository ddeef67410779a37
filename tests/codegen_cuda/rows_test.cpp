#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/schedule.h"
#include "tests/codegen_cuda/expect_right.h"

namespace anydim::codegen_cuda::testing {
namespace {

std::vector<Symbols> pairs(const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& columns) {
  std::vector<Symbols> result;
  for (const std::int64_t n : rows)
    for (const std::int64_t m : columns) result.push_back({{"n", n}, {"m", m}});
  return result;
}

constexpr const char* softmax = R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n, m), f32]
  where n in [0, 200], m in [0, 20000] {
  %y = softmax(%x) {axis = -1}
  return %y
})";

TEST(CudaRows, SoftmaxOfShortRowsInRegisters) {
  expect_right(make_region(softmax), bucket_of({{0, 200, 1}, {0, 200, 1}}), pairs({0, 1, 9}, {0, 1, 31, 32, 33, 130}));
}

TEST(CudaRows, SoftmaxOfLongRowsReadsThemAgain) { expect_right(make_region(softmax), {}, pairs({0, 3}, {0, 1, 33, 257, 2050})); }

TEST(CudaRows, SoftmaxAcrossTheFirstAxis) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n, m), f32]
  where n in [0, 200], m in [0, 200] {
  %y = softmax(%x) {axis = 0}
  return %y
})");
  expect_right(region, {}, pairs({0, 1, 7, 20}, {0, 1, 32, 37}));
}

constexpr const char* layer_norm = R"(
fn @main(%x: Tensor[(n, 384), f32], %r: Tensor[(n, 384), f32], %scale: Tensor[(384), f32], %bias: Tensor[(384), f32]) -> Tensor[(n, 384), f32]
  where n in [0, 200] {
  %s = add(%x, %r)
  %y = layer_norm(%s, %scale, %bias) {axis = -1, epsilon = 1e-12}
  return %y
})";

TEST(CudaRows, LayerNormWithResidual) { expect_right(make_region(layer_norm), {}, sizes("n", {0, 1, 3, 9})); }

TEST(CudaRows, LayerNormOfHalves) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, 96), bf16], %scale: Tensor[(96), bf16], %bias: Tensor[(96), bf16]) -> Tensor[(n, 96), bf16]
  where n in [0, 200] {
  %y = layer_norm(%x, %scale, %bias) {axis = -1, epsilon = 1e-5}
  return %y
})");
  expect_right(region, {}, sizes("n", {0, 1, 5}), 2e-2);
}

TEST(CudaRows, SurplusBlocksExit) {
  const auto region = make_region(layer_norm);
  const CudaTarget target = small_target("h200");
  for (const ir::Schedule& schedule : candidates(*region, target, {})) {
    const KernelCase kernel = compiled(region, target, {}, schedule);
    CaseOptions options;
    options.capacity = {{"n", 40}};
    EXPECT_EQ(check_case(kernel, ptx::parse_ptx(kernel.ptx), {{"n", 3}}, options, 2e-5), "") << to_string(schedule);
  }
}

TEST(CudaRows, SumsAlongTheMiddle) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(b, s, 40), f32], %mask: Tensor[(b, s, 1), f32]) -> Tensor[(b, 40), f32]
  where b in [0, 200], s in [0, 200] {
  %p = mul(%x, %mask)
  %y = reduce_sum(%p) {axes = (1), keepdims = 0}
  return %y
})");
  expect_right(region, {}, {{{"b", 0}, {"s", 2}}, {{"b", 2}, {"s", 0}}, {{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 37}}});
}

// Every third sequence is empty, the others grow.
void lay_end_to_end(ir::Tensor& offsets, std::int64_t rows) {
  std::int64_t at = 0;
  for (std::int64_t s = 0; s < offsets.elements(); ++s) {
    offsets.set_integer(s, s + 1 == offsets.elements() ? rows : at);
    if (s % 3 != 1) at = std::min(rows, at + 2 * s + 1);
  }
}

// Pooling over sequences laid end to end, and reductions that give one number a sequence.
TEST(CudaRows, Segments) {
  const auto pooling = make_region(R"(
fn @main(%x: Tensor[(t, 12), f32], %offsets: Tensor[(n), i64])
  where t in [0, 2000], n in [1, 40] {
  %positive = relu(%x)
  %sum = segment_sum(%positive, %offsets)
  %root = sqrt(%sum)
  return %root
})");
  const auto numbers = make_region(R"(
fn @main(%x: Tensor[(t), i32], %offsets: Tensor[(n), i64])
  where t in [0, 2000], n in [1, 40] {
  %most = segment_max(%x, %offsets)
  %least = segment_min(%x, %offsets)
  %range = sub(%most, %least)
  return %range, %most
})");
  const CudaTarget target = small_target("h200");
  for (const auto& region : {pooling, numbers}) {
    for (const ir::Schedule& schedule : candidates(*region, target, {})) {
      const KernelCase kernel = compiled(region, target, {}, schedule);
      const ptx::Module module = ptx::parse_ptx(kernel.ptx);
      for (const auto& [rows, entries] : std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1}, {0, 4}, {1, 2}, {7, 4}, {60, 6}}) {
        const Symbols symbols{{"t", rows}, {"n", entries}};
        auto inputs = real_inputs(*region, symbols);
        lay_end_to_end(inputs[1], rows);
        const CaseRun run = run_case(kernel, module, symbols, inputs);
        const std::string where = to_string(schedule) + " t=" + std::to_string(rows) + " n=" + std::to_string(entries);
        ASSERT_EQ(run.findings, "") << where;
        EXPECT_EQ(run.error.check, -1) << where;
        EXPECT_EQ(compare(run.outputs, reference(*region, inputs), 2e-5), "") << where;
      }
    }
  }
}

TEST(CudaRows, SegmentOffsetsThatBreakTheRuleAreReportedAndReadNothingElse) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(t, 4), f32], %offsets: Tensor[(n), i64])
  where t in [0, 2000], n in [1, 40] {
  %sum = segment_sum(%x, %offsets)
  return %sum
})");
  const Symbols symbols{{"t", 9}, {"n", 4}};
  for (const std::vector<std::int64_t>& offsets :
       std::vector<std::vector<std::int64_t>>{{0, 4, 2, 9}, {1, 4, 5, 9}, {0, 4, 5, 8}, {0, 4, 5, 10}, {0, 1000000, 5, 9}, {0, -3, 5, 9}}) {
    auto inputs = real_inputs(*region, symbols);
    for (std::size_t i = 0; i < offsets.size(); ++i) inputs[1].set_integer(static_cast<std::int64_t>(i), offsets[i]);
    EXPECT_EQ(failure_of(region, symbols, inputs).check, 0);
  }
}

TEST(CudaRows, EveryReductionOverSeveralAxes) {
  for (const std::string dtype : {"f32", "f64", "f16", "i64", "i32", "i8", "u8"}) {
    std::string results, types, body;
    for (const std::string op : {"sum", "max", "min", "prod", "mean"}) {
      if (op == "mean" && dtype[0] != 'f') continue;
      body += "  %" + op + " = reduce_" + op + "(%x) {axes = (1, 2), keepdims = 0}\n";
      results += (results.empty() ? "%" : ", %") + op;
      types += (types.empty() ? "Tensor[(n), " : ", Tensor[(n), ") + dtype + "]";
    }
    SCOPED_TRACE(dtype);
    const auto region = make_region("fn @main(%x: Tensor[(n, 3, m), " + dtype + "]) -> (" + types +
                                    ")\n  where n in [0, 200], m in [0, 200] {\n" + body + "  return " + results + "\n}");
    expect_right(region, {}, pairs({1, 3}, {0, 1, 21}), dtype == "f16" ? 1e-2 : 2e-5);
  }
}

TEST(CudaRows, WholeTensorIsSplitBetweenBlocks) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n), f32]) -> (Tensor[(), f32], Tensor[(), f32])
  where n in [0, 1000000] {
  %max = reduce_max(%x) {keepdims = 0}
  %mean = reduce_mean(%x) {keepdims = 0}
  return %max, %mean
})");
  std::set<std::int64_t> splits;
  for (const ir::Schedule& schedule : candidates(*region, small_target("h200"), {})) splits.insert(schedule.field("split"));
  EXPECT_GT(splits.size(), 1u);
  expect_right(region, {}, sizes("n", {0, 1, 255, 257, 5000}));
}

TEST(CudaRows, LogSoftmaxAndKeptMeans) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, m), f32]) -> (Tensor[(n, m), f32], Tensor[(n, 1), f32])
  where n in [0, 200], m in [0, 200] {
  %y = log_softmax(%x) {axis = -1}
  %z = reduce_mean(%x) {axes = (1), keepdims = 1}
  return %y, %z
})");
  expect_right(region, {}, pairs({1, 4}, {1, 2, 37}));
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
