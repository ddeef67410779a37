// Products with weights as products of bytes (--precision int8): near what they were, row by row.
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

TEST(QuantiseProducts, NearWhatTheyWere) {
  const Module plain = tests::after_passes(two_products, {"infer_types"}),
               bytes = lowered(two_products);
  EXPECT_EQ(count(bytes, Op::matmul, DType::U8), 2u);
  // One row quantised serves both.
  EXPECT_EQ(count(bytes, Op::reduce_max, DType::F32), 1u);
  const Tensor x = tests::sample(DType::F32, {2, 5, 64}, 3);
  const auto expected = run(plain, x), got = run(bytes, x);
  for (std::size_t i = 0; i < 2; ++i) {
    double error = 0, size = 0;
    for (std::int64_t at = 0; at < expected[i].elements(); ++at) {
      error += std::pow(got[i].real_at(at) - expected[i].real_at(at), 2);
      size += std::pow(expected[i].real_at(at), 2);
    }
    EXPECT_LT(std::sqrt(error / size), 0.01) << i;
    EXPECT_GT(error, 0) << i;
  }
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
