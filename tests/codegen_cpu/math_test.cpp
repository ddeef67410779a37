// The vectorised f32 functions against libm in double, over every 397th float and around special
// values, at every level.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

constexpr std::int64_t stride = 397;
constexpr std::int64_t chunk = 1 << 20;

// Units in the last place of the f32 nearest to the exact value; below the smallest normal, in
// denormal steps.
double ulps(float got, double exact) {
  if (std::isnan(got) && std::isnan(exact)) return 0;
  if (static_cast<double>(got) == exact) return 0;
  const auto nearest = static_cast<float>(exact);
  if (got == nearest) return 0.5;
  if (std::isinf(got) || std::isinf(nearest) || std::isnan(got) || std::isnan(exact))
    return std::numeric_limits<double>::infinity();
  int exponent = 0;
  std::frexp(nearest, &exponent);
  return std::abs(static_cast<double>(got) - exact) /
         std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Outcome {
  double worst = 0;
  float at = 0;
};

// Largest `error(x, got)` of the op over floats with either sign.
Outcome worst_of(const std::string& op, const Target& target,
                 const std::function<double(float, float)>& error) {
  const TestRegion region = make_region(
      "fn @main(%x: Tensor[(n), f32]) -> Tensor[(n), f32]\n  where n in [0, 100000000] {\n  %y = " +
      op + "(%x)\n  return %y\n}");
  const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
  Outcome outcome;
  std::int64_t bits = 0;
  while (bits < (std::int64_t{1} << 32)) {
    ir::Tensor input(ir::DType::F32, {chunk});
    auto values = input.mutable_as<std::uint32_t>();
    for (std::int64_t i = 0; i < chunk; ++i, bits += stride)
      values[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(bits);
    // The neighbourhood of every power of two, 0, infinity and NaN included, in the first chunk.
    if (bits <= chunk * stride) {
      for (std::uint32_t i = 0; i < 512; ++i) {
        for (std::uint32_t k = 0; k < 8; ++k) values[i * 8 + k] = (i << 23) + k - 4;
      }
    }
    const auto got = run(region, target, kernel, {{"n", chunk}}, {input}, 1);
    const auto x = input.as<float>();
    const auto y = got[0].as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double off = error(x[i], y[i]);
      if (!(off <= outcome.worst)) outcome = {off, x[i]};
    }
  }
  return outcome;
}

void expect_ulps(const std::string& op, const std::function<double(double)>& exact, double limit) {
  for (const Target& target : targets()) {
    const Outcome outcome =
        worst_of(op, target, [&](float x, float got) { return ulps(got, exact(x)); });
    EXPECT_LE(outcome.worst, limit)
        << op << " " << name_of(target.level) << " at " << std::hexfloat << outcome.at;
  }
}

TEST(Math, Exp) {
  expect_ulps("exp", [](double x) { return std::exp(x); }, 1.1);
}
TEST(Math, Log) {
  expect_ulps("log", [](double x) { return std::log(x); }, 1.2);
}
TEST(Math, Erf) {
  expect_ulps("erf", [](double x) { return std::erf(x); }, 6);
}
TEST(Math, Tanh) {
  expect_ulps("tanh", [](double x) { return std::tanh(x); }, 6);
}

TEST(Math, Sigmoid) {
  const auto exact = [](double x) { return 1 / (1 + std::exp(-x)); };
  for (const Target& target : targets()) {
    const Outcome outcome = worst_of("sigmoid", target, [&](float x, float got) {
      const double wanted = exact(x);
      return wanted < 1e-37 ? std::abs(got - wanted) / 1.2e-38 : ulps(got, wanted) / 3;
    });
    EXPECT_LE(outcome.worst, 1) << name_of(target.level) << " at " << std::hexfloat << outcome.at;
  }
}

void expect_gelu(const std::string& op, const std::function<double(double)>& inner, double limit) {
  for (const Target& target : targets()) {
    const Outcome outcome = worst_of(op, target, [&](float x, float got) {
      if (std::isnan(x)) return std::isnan(got) ? 0.0 : 1.0;
      if (std::isinf(x)) return x > 0 ? (got == x ? 0.0 : 1.0) : (std::isnan(got) ? 0.0 : 1.0);
      return std::abs(got - 0.5 * x * (1 + inner(x))) /
             std::max(1.0, std::abs(static_cast<double>(x)));
    });
    EXPECT_LE(outcome.worst, limit)
        << op << " " << name_of(target.level) << " at " << std::hexfloat << outcome.at;
  }
}

TEST(Math, Gelu) {
  expect_gelu("gelu", [](double x) { return std::erf(x / std::numbers::sqrt2); }, 4e-7);
}
TEST(Math, GeluTanh) {
  expect_gelu(
      "gelu_tanh",
      [](double x) {
        return std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
      },
      5e-7);
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
