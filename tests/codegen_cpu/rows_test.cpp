#include <gtest/gtest.h>

#include "ir/schedule.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

const std::vector<std::int64_t> tails{0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65, 130};

std::vector<Symbols> pairs(const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& columns) {
  std::vector<Symbols> result;
  for (const std::int64_t n : rows)
    for (const std::int64_t m : columns) result.push_back({{"n", n}, {"m", m}});
  return result;
}

TEST(Rows, Softmax) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n, m), f32]
  where n in [0, 200], m in [0, 200] {
  %y = softmax(%x) {axis = -1}
  return %y
})");
  expect_right(region, {}, pairs({0, 1, 3}, tails));
}

TEST(Rows, SoftmaxAcrossTheFirstAxis) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n, m), f32]
  where n in [0, 200], m in [0, 200] {
  %y = softmax(%x) {axis = 0}
  return %y
})");
  expect_right(region, {}, pairs({0, 1, 7}, tails));
}

TEST(Rows, LayerNormWithResidual) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, 384), f32], %r: Tensor[(n, 384), f32], %scale: Tensor[(384), f32], %bias: Tensor[(384), f32]) -> Tensor[(n, 384), f32]
  where n in [0, 200] {
  %s = add(%x, %r)
  %y = layer_norm(%s, %scale, %bias) {axis = -1, epsilon = 1e-12}
  return %y
})");
  expect_right(region, {}, sizes("n", {0, 1, 2, 33}));
}

TEST(Rows, SumsAlongTheMiddle) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(b, s, 40), f32], %mask: Tensor[(b, s, 1), f32]) -> Tensor[(b, 40), f32]
  where b in [0, 200], s in [0, 200] {
  %p = mul(%x, %mask)
  %y = reduce_sum(%p) {axes = (1), keepdims = 0}
  return %y
})");
  expect_right(region, {}, {{{"b", 0}, {"s", 2}}, {{"b", 2}, {"s", 0}}, {{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 37}}});
}

// Mean pooling over sequences laid end to end, and reductions that give one number a sequence.
TEST(Rows, Segments) {
  const TestRegion pooling = make_region(R"(
fn @main(%x: Tensor[(t, 40), f32], %offsets: Tensor[(n), i64])
  where t in [0, 2000], n in [1, 40] {
  %positive = relu(%x)
  %sum = segment_sum(%positive, %offsets)
  %root = sqrt(%sum)
  return %root
})");
  const TestRegion numbers = make_region(R"(
fn @main(%x: Tensor[(t), i32], %offsets: Tensor[(n), i64])
  where t in [0, 2000], n in [1, 40] {
  %most = segment_max(%x, %offsets)
  %least = segment_min(%x, %offsets)
  %range = sub(%most, %least)
  return %range, %most
})");
  for (const TestRegion* region : {&pooling, &numbers}) {
    for (const Target& target : targets()) {
      for (const ir::Schedule& schedule : candidates(*region, target, {})) {
        const TestKernel kernel = compile(*region, target, {}, schedule);
        for (const auto& [rows, entries] :
             std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1}, {0, 4}, {1, 2}, {7, 4}, {100, 3}, {1000, 40}}) {
          SCOPED_TRACE(to_string(schedule) + " t=" + std::to_string(rows) + " n=" + std::to_string(entries));
          const Symbols symbols{{"t", rows}, {"n", entries}};
          auto inputs = random_inputs(*region, symbols, 1);
          // Every third sequence is empty, the others grow.
          std::int64_t at = 0;
          for (std::int64_t s = 0; s < entries; ++s) {
            inputs[1].set_integer(s, s + 1 == entries ? rows : at);
            if (s % 3 != 1) at = std::min(rows, at + 2 * s + 1);
          }
          const auto expected = reference(*region, inputs);
          const auto got = run(*region, target, kernel, symbols, inputs);
          for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LE(difference(got[i], expected[i]), 2e-5) << "output " << i;
        }
      }
    }
  }
}

TEST(Rows, SegmentOffsetsThatBreakTheRule) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(t, 4), f32], %offsets: Tensor[(n), i64])
  where t in [0, 2000], n in [1, 40] {
  %sum = segment_sum(%x, %offsets)
  return %sum
})");
  for (const Target& target : targets()) {
    const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
    for (const std::vector<std::int64_t>& offsets : std::vector<std::vector<std::int64_t>>{
             {0, 4, 2, 9}, {1, 4, 5, 9}, {0, 4, 5, 8}, {0, 4, 5, 10}, {0, 1000000, 5, 9}, {0, -3, 5, 9}}) {
      const Symbols symbols{{"t", 9}, {"n", 4}};
      auto inputs = random_inputs(region, symbols, 1);
      for (std::size_t i = 0; i < offsets.size(); ++i) inputs[1].set_integer(static_cast<std::int64_t>(i), offsets[i]);
      ir::KernelError failure;
      run(region, target, kernel, symbols, inputs, 1, &failure);
      EXPECT_EQ(failure.check, 0);
    }
  }
}

TEST(Rows, EveryReductionOverSeveralAxes) {
  for (const std::string dtype : {"f32", "f64", "f16", "i64", "i32", "i8", "u8"}) {
    for (const std::string op : {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_mean"}) {
      if (op == "reduce_mean" && dtype[0] != 'f') continue;
      SCOPED_TRACE(op + " " + dtype);
      const TestRegion region = make_region("fn @main(%x: Tensor[(n, 3, m), " + dtype + "]) -> Tensor[(n), " + dtype +
                                            "]\n"
                                            "  where n in [0, 200], m in [0, 200] {\n  %y = " +
                                            op + "(%x) {axes = (1, 2), keepdims = 0}\n  return %y\n}");
      expect_right(region, {}, pairs({1, 3}, {0, 1, 5, 16, 21}), {.tolerance = dtype == "f16" ? 1e-2 : 2e-5});
    }
  }
}

TEST(Rows, WholeTensor) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n), f32]) -> Tensor[(), f32]
  where n in [0, 200] {
  %y = reduce_max(%x) {keepdims = 0}
  return %y
})");
  expect_right(region, {}, sizes("n", tails));
}

TEST(Rows, LogSoftmaxAndKeptMeans) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, m), f32]) -> (Tensor[(n, m), f32], Tensor[(n, 1), f32])
  where n in [0, 200], m in [0, 200] {
  %y = log_softmax(%x) {axis = -1}
  %z = reduce_mean(%x) {axes = (1), keepdims = 1}
  return %y, %z
})");
  expect_right(region, {}, pairs({1, 4}, {1, 2, 16, 37}));
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
