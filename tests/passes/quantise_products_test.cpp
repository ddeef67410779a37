// Products with weights as products of bytes (--precision int8): near what they were, row by row
// and image by image.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/reference/evaluate.h"
#include "passes/pass.h"
#include "tests/support/pass_fixture.h"

namespace anydim::passes {
namespace {

using namespace ir;

Module lowered(const std::string& text) {
  Module module = tests::after_passes(text, {"infer_types"});
  PipelineOptions options;
  options.precision = DType::I8;
  PassContext context{.options = options};
  const std::vector<std::string> names{"lower_precision"};
  run_passes(module, context, names);
  return module;
}

std::size_t count(const Module& module, Op op, DType operands) {
  const Function& main = module.functions[0];
  return static_cast<std::size_t>(
      std::ranges::count_if(main.body.bindings, [&](const Binding& binding) {
        if (binding.op != op) return false;
        // What the first operand is widened from.
        for (const Binding& other : main.body.bindings)
          if (other.op == Op::cast && other.results[0] == binding.operands[0])
            return main.tensor_type(other.operands[0]).dtype == operands;
        return main.tensor_type(binding.operands[0]).dtype == operands;
      }));
}

const std::string two_products = R"(
fn @main(%x: Tensor[(b, s, 64), f32]) where b in [0, 9], s in [0, 99] {
  %w = constant(f32 (64, 96) @random(1))
  %t = constant(f32 (80, 64) @random(2))
  %v = transpose(%t) {perm = (1, 0)}
  %y = matmul(%x, %w)
  %z = matmul(%x, %v)
  return %y, %z
}
)";

std::vector<Tensor> run(const Module& module, const Tensor& x) {
  return evaluate(module, module.functions[0], std::vector{x});
}

void expect_near(const std::string& text, const Module& bytes, const Tensor& x) {
  const Module plain = tests::after_passes(text, {"infer_types"});
  const auto expected = run(plain, x), got = run(bytes, x);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    double error = 0, size = 0;
    for (std::int64_t at = 0; at < expected[i].elements(); ++at) {
      error += std::pow(got[i].real_at(at) - expected[i].real_at(at), 2);
      size += std::pow(expected[i].real_at(at), 2);
    }
    EXPECT_LT(std::sqrt(error / size), 0.01) << i;
    EXPECT_GT(error, 0) << i;
  }
}

TEST(QuantiseProducts, NearWhatTheyWere) {
  const Module bytes = lowered(two_products);
  EXPECT_EQ(count(bytes, Op::matmul, DType::U8), 2u);
  // One row quantised serves both.
  EXPECT_EQ(count(bytes, Op::reduce_max, DType::F32), 1u);
  expect_near(two_products, bytes, tests::sample(DType::F32, {2, 5, 64}, 3));
}

// A transpose that names no order turns the dims round; one that leaves them is none.
TEST(QuantiseProducts, TransposesOfWeights) {
  const std::string text = R"(
fn @main(%x: Tensor[(b, 64), f32], %y: Tensor[(b, 96), f32]) where b in [0, 9] {
  %t = constant(f32 (96, 64) @random(2))
  %turned = transpose(%t)
  %left = transpose(%t) {perm = (0, 1)}
  %z = matmul(%x, %turned)
  %u = matmul(%y, %left)
  return %z, %u
}
)";
  const Module bytes = lowered(text);
  EXPECT_EQ(count(bytes, Op::matmul, DType::U8), 1u);
  EXPECT_EQ(count(bytes, Op::matmul, DType::F32), 1u);
}

// What is in one row decides on that row alone: rows of zeros are zeros, rows with no number have
// none.
TEST(QuantiseProducts, RowByRow) {
  const Module bytes = lowered(two_products);
  Tensor x = tests::sample(DType::F32, {1, 4, 64}, 3);
  const auto before = run(bytes, x);
  for (std::int64_t i = 0; i < 64; ++i) x.set_real(64 + i, 0);
  x.set_real(2 * 64 + 7, std::numeric_limits<double>::quiet_NaN());
  x.set_real(3 * 64 + 7, std::numeric_limits<double>::infinity());
  const auto after = run(bytes, x);
  for (std::size_t result = 0; result < 2; ++result) {
    const std::int64_t width = after[result].dims()[2];
    for (std::int64_t i = 0; i < width; ++i) {
      EXPECT_EQ(after[result].real_at(i), before[result].real_at(i));
      EXPECT_EQ(after[result].real_at(width + i), 0);
      EXPECT_TRUE(std::isnan(after[result].real_at(2 * width + i)));
      EXPECT_FALSE(std::isfinite(after[result].real_at(3 * width + i)));
    }
  }
}

// Windows of images, channels last and first, and a product of each place's channels.
const std::string convolutions = R"(
fn @main(%x: Tensor[(b, 6, 6, 16), f32]) where b in [0, 9] {
  %w = constant(f32 (40, 16, 3, 3) @random(1))
  %flat = flatten(%w) {axis = 1}
  %wt = transpose(%flat) {perm = (1, 0)}
  %p = pad(%x) {axes = (1, 2), before = (1, 1), after = (1, 1)}
  %seen = windows(%p) {axes = (1, 2), sizes = (3, 3), strides = (1, 1), dilations = (1, 1)}
  %last = dyn.reshape(%seen, shape(b, 36, 144)) {zero_copies = 0}
  %y = matmul(%last, %wt)
  %turned = transpose(%p) {perm = (0, 3, 1, 2)}
  %wide = windows(%turned) {axes = (2, 3), sizes = (3, 3), strides = (1, 1), dilations = (1, 1)}
  %places = transpose(%wide) {perm = (0, 2, 3, 1, 4, 5)}
  %rows = dyn.reshape(%places, shape(b, 36, 144)) {zero_copies = 0}
  %z = matmul(%rows, %wt)
  %w1 = constant(f32 (300, 16, 1, 1) @random(2))
  %m1 = transpose(reshape(%w1) {shape = (300, 16)}) {perm = (1, 0)}
  %u = matmul(%x, %m1)
  return %y, %z, %u
}
)";

TEST(QuantiseProducts, Convolutions) {
  const Module bytes = lowered(convolutions);
  EXPECT_EQ(count(bytes, Op::matmul, DType::I32), 2u);  // views of what was widened
  EXPECT_EQ(count(bytes, Op::matmul, DType::U8), 1u);
  // An image is quantised once, before its windows are; each place's channels by themselves.
  EXPECT_EQ(count(bytes, Op::reduce_max, DType::F32), 2u);
  expect_near(convolutions, bytes, tests::sample(DType::F32, {2, 6, 6, 16}, 3));
}

// What is in one image decides on that image alone.
TEST(QuantiseProducts, ImageByImage) {
  const Module bytes = lowered(convolutions);
  Tensor x = tests::sample(DType::F32, {3, 6, 6, 16}, 3);
  const auto before = run(bytes, x);
  constexpr std::int64_t image = 6 * 6 * 16;
  for (std::int64_t i = 0; i < image; ++i) x.set_real(image + i, 0);
  x.set_real(2 * image + 7, std::numeric_limits<double>::quiet_NaN());
  const auto after = run(bytes, x);
  const std::int64_t results = after[0].elements() / 3;
  for (std::int64_t i = 0; i < results; ++i) {
    EXPECT_EQ(after[0].real_at(i), before[0].real_at(i));
    EXPECT_EQ(after[0].real_at(results + i), 0);
    EXPECT_TRUE(std::isnan(after[0].real_at(2 * results + i)));
  }
}

// The largest magnitudes and opposite signs, where rounding of scales shows.
TEST(QuantiseProducts, EndsOfTheRange) {
  const Module bytes = lowered(two_products);
  for (const double large : {1e-30, 1.0, 1e30}) {
    Tensor x(DType::F32, {1, 2, 64});
    for (std::int64_t i = 0; i < 64; ++i) {
      x.set_real(i, i % 2 == 0 ? large : -large);
      x.set_real(64 + i, large);
    }
    const auto expected = run(tests::after_passes(two_products, {"infer_types"}), x),
               got = run(bytes, x);
    for (std::int64_t at = 0; at < got[0].elements(); ++at)
      EXPECT_NEAR(got[0].real_at(at) / large, expected[0].real_at(at) / large, 0.5)
          << large << " " << at;
  }
}

TEST(QuantiseProducts, LeavesScoresAndSmallMatrices) {
  const Module module = lowered(R"(
fn @main(%x: Tensor[(s, 64), f32]) where s in [0, 99] {
  %wq = constant(f32 (64, 64) @random(1))
  %wk = constant(f32 (64, 64) @random(2))
  %wv = constant(f32 (64, 64) @random(3))
  %few = constant(f32 (64, 2) @random(4))
  %bias = constant(f32 (64) @random(5))
  %q0 = matmul(%x, %wq)
  %q = add(%q0, %bias)
  %k = matmul(%x, %wk)
  %v = matmul(%x, %wv)
  %a = attention(%q, %k, %v) {scale = 0.125}
  %y = matmul(%a, %few)
  return %y
}
)");
  EXPECT_EQ(count(module, Op::matmul, DType::BF16), 2u);
  EXPECT_EQ(count(module, Op::matmul, DType::U8), 1u);
  EXPECT_EQ(count(module, Op::matmul, DType::F32), 1u);
  EXPECT_EQ(count(module, Op::attention, DType::BF16), 1u);
}

}  // namespace
}  // namespace anydim::passes
