// The vectorised functions of doubles against libm in long double, over bit patterns of the whole
// range, over those where the function changes, and around special values, at every level.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "tests/codegen_cpu/kernel_harness.h"

namespace anydim::codegen_cpu::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> arguments(double widest) {
  std::vector<double> values = {0, infinity, std::numeric_limits<double>::quiet_NaN()};
  for (const double edge :
       {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::min(),
        std::numeric_limits<double>::max(), 0.5, 1.0, std::sqrt(0.5), std::sqrt(2.0), 22.0,
        709.782712893384, 745.1332191019412})
    for (const double near : {std::nextafter(edge, 0.0), edge, std::nextafter(edge, infinity)})
      values.push_back(near);
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    values.push_back(std::bit_cast<double>(random() >> 1));
    values.push_back(std::uniform_real_distribution(0.0, widest)(random));
    values.push_back(std::uniform_real_distribution(0.5, 2.0)(random));
    values.push_back(std::exp2(std::uniform_real_distribution(-60.0, 5.0)(random)));
  }
  for (std::size_t i = 0, count = values.size(); i < count; ++i) values.push_back(-values[i]);
  return values;
}

// Distance in units of the last place of the exact result.
double ulps(double got, long double exact) {
  const auto nearest = static_cast<double>(exact);
  if (got == nearest || (std::isnan(got) && std::isnan(nearest))) return 0;
  if (!std::isfinite(got) || !std::isfinite(nearest)) return infinity;
  const double size = std::abs(nearest);
  const long double unit = static_cast<long double>(std::nextafter(size, infinity)) - size;
  return static_cast<double>(std::abs(got - exact) / unit);
}

void expect_ulps(const std::string& op, const std::function<long double(long double)>& exact,
                 double limit, double widest) {
  const TestRegion region =
      make_region(fmt::format("fn @main(%x: Tensor[(n), f64]) -> Tensor[(n), f64]\n"
                              "  where n in [0, 100000000] {{\n  %y = {}(%x)\n  return %y\n}}",
                              op));
  const std::vector<double> values = arguments(widest);
  const auto count = static_cast<std::int64_t>(values.size());
  ir::Tensor input(ir::DType::F64, {count});
  std::ranges::copy(values, input.mutable_as<double>().begin());
  for (const Target& target : targets()) {
    const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
    const auto got = run(region, target, kernel, {{"n", count}}, {input}, 1);
    double worst = 0, at = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double off = ulps(got[0].as<double>()[i], exact(values[i]));
      if (off > worst) worst = off, at = values[i];
    }
    EXPECT_LE(worst, limit) << op << " " << name_of(target.level) << " at " << std::hexfloat << at;
  }
}

TEST(MathOfDoubles, Exp) {
  expect_ulps("exp", [](long double x) { return std::exp(x); }, 1, 750);
}
TEST(MathOfDoubles, Log) {
  expect_ulps("log", [](long double x) { return std::log(x); }, 1, 1e6);
}
TEST(MathOfDoubles, Tanh) {
  expect_ulps("tanh", [](long double x) { return std::tanh(x); }, 3, 25);
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
