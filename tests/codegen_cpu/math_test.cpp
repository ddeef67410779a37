// The vectorised f32 functions against libm in double, over every 397th float, or 2779th, and
// around special values, at every level.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/codegen_cpu/expect_right.h"
#include "tests/codegen_cpu/function_errors.h"

namespace anydim::codegen_cpu::testing {
namespace {

constexpr std::int64_t dense = 397, sparse = 7 * dense;

void expect_errors(const std::string& op, const std::function<double(double)>& exact,
                   const ErrorOf& error, double limit, std::int64_t stride = dense,
                   const std::string& more_operands = {}) {
  for (const WorstError& worst : worst_errors(op, exact, error, stride, more_operands))
    EXPECT_LE(worst.error, limit) << op << " " << name_of(worst.level) << " at " << std::hexfloat
                                  << worst.at;
}

void expect_ulps(const std::string& op, const std::function<double(double)>& exact, double limit,
                 std::int64_t stride = dense, const std::string& more_operands = {}) {
  expect_errors(
      op, exact, [](float, float got, double wanted) { return ulps(got, wanted); }, limit, stride,
      more_operands);
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

TEST(Math, Sin) {
  expect_ulps("sin", [](double x) { return std::sin(x); }, 0.502, sparse);
}
TEST(Math, Cos) {
  expect_ulps("cos", [](double x) { return std::cos(x); }, 0.502, sparse);
}
TEST(Math, Tan) {
  expect_ulps("tan", [](double x) { return std::tan(x); }, 0.502, sparse);
}
TEST(Math, Asin) {
  expect_ulps("asin", [](double x) { return std::asin(x); }, 2.4, sparse);
}
TEST(Math, Acos) {
  expect_ulps("acos", [](double x) { return std::acos(x); }, 1.1, sparse);
}
TEST(Math, Atan) {
  expect_ulps("atan", [](double x) { return std::atan(x); }, 1.4, sparse);
}
TEST(Math, Sinh) {
  expect_ulps("sinh", [](double x) { return std::sinh(x); }, 0.502, sparse);
}
TEST(Math, Cosh) {
  expect_ulps("cosh", [](double x) { return std::cosh(x); }, 0.502, sparse);
}
TEST(Math, Asinh) {
  expect_ulps("asinh", [](double x) { return std::asinh(x); }, 0.502, sparse);
}
TEST(Math, Acosh) {
  expect_ulps("acosh", [](double x) { return std::acosh(x); }, 0.502, sparse);
}
TEST(Math, Atanh) {
  expect_ulps("atanh", [](double x) { return std::atanh(x); }, 0.502, sparse);
}
TEST(Math, Erfc) {
  expect_ulps("erfc", [](double x) { return std::erfc(x); }, 0.502, sparse);
}

// Pairs of bases and exponents: the special ones, and results over the whole range of each base,
// ones close to 1 among them.
TEST(Math, Pow) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> special = {0,
                                infinity,
                                std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::denorm_min(),
                                std::numeric_limits<float>::min(),
                                std::numeric_limits<float>::max(),
                                0.5F,
                                1.5F,
                                3,
                                4,
                                1.0F / 3};
  for (const float power : {1.0F, 2.0F, 0x1p22F, 0x1p23F, 0x1p24F, 0x1p25F, 0x1p31F, 0x1p32F})
    for (const float away : {0.0F, infinity}) {
      special.push_back(std::nextafterf(power, away));
      special.push_back(power);
    }
  for (std::size_t i = 0, count = special.size(); i < count; ++i) special.push_back(-special[i]);
  std::vector<float> bases, exponents;
  const auto add = [&](float base, double exponent) {
    bases.push_back(base);
    exponents.push_back(static_cast<float>(exponent));
  };
  for (const float base : special)
    for (const float exponent : special) add(base, exponent);
  for (std::int64_t bits = 0; bits < 0x7f800000; bits += 1000 * dense)
    for (double power = -152; power < 130; power += 0.7)
      add(std::bit_cast<float>(static_cast<std::uint32_t>(bits)),
          power / std::log2(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
  for (int i = -400; i <= 400; ++i)
    for (double power = -152; power < 130; power += 0.7)
      add(1 + static_cast<float>(i * i * i) * 0x1p-30F,
          power / std::log1p(static_cast<double>(i * i * i) * 0x1p-30) * std::numbers::ln2);
  for (int base = -40; base <= 40; ++base)
    for (int exponent = -60; exponent <= 60; ++exponent)
      add(static_cast<float>(base) / 4, exponent);

  const TestRegion region = make_region(
      "fn @main(%x: Tensor[(n), f32], %y: Tensor[(n), f32]) -> Tensor[(n), f32]\n"
      "  where n in [0, 100000000] {\n  %z = pow(%x, %y)\n  return %z\n}");
  const auto count = static_cast<std::int64_t>(bases.size());
  std::vector<ir::Tensor> inputs;
  for (const std::vector<float>* values : {&bases, &exponents})
    std::ranges::copy(
        *values,
        inputs.emplace_back(ir::DType::F32, std::vector{count}).mutable_as<float>().begin());
  for (const Target& target : targets()) {
    const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
    const auto got = run(region, target, kernel, {{"n", count}}, inputs, 1);
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < bases.size(); ++i) {
      const double off = ulps(got[0].as<float>()[i], std::pow(static_cast<double>(bases[i]),
                                                              static_cast<double>(exponents[i])));
      if (!(off <= worst)) {
        worst = off;
        at = i;
      }
    }
    EXPECT_LE(worst, 0.53) << name_of(target.level) << " at " << std::hexfloat << bases[at] << " ^ "
                           << exponents[at];
  }
}

// Exponents that ir/real_body.h makes products, quotients and roots of.
TEST(Math, PowOfLiterals) {
  for (const double exponent : {1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0})
    expect_ulps(
        "pow", [=](double x) { return std::pow(x, exponent); }, 2, sparse,
        ", constant(f32 () [" + std::to_string(exponent) + "])");
}

TEST(Math, Sigmoid) {
  expect_errors(
      "sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); },
      [](float, float got, double wanted) {
        return wanted < 1e-37 ? std::abs(got - wanted) / 1.2e-38 : ulps(got, wanted) / 3;
      },
      1);
}

void expect_gelu(const std::string& op, const std::function<double(double)>& inner, double limit) {
  expect_errors(
      op, inner,
      [](float x, float got, double at_x) {
        if (std::isnan(x)) return std::isnan(got) ? 0.0 : 1.0;
        if (std::isinf(x)) return x > 0 ? (got == x ? 0.0 : 1.0) : (std::isnan(got) ? 0.0 : 1.0);
        return std::abs(got - 0.5 * x * (1 + at_x)) /
               std::max(1.0, std::abs(static_cast<double>(x)));
      },
      limit);
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
