#include "tests/codegen_cpu/function_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/codegen_cpu/kernel_harness.h"

namespace anydim::codegen_cpu::testing {

namespace {

constexpr std::int64_t chunk = 1 << 20;

}  // namespace

double ulps(float got, double exact) {
  if (std::isnan(got) && std::isnan(exact)) return 0;
  if (static_cast<double>(got) == exact && std::signbit(got) == std::signbit(exact)) return 0;
  const auto nearest = static_cast<float>(exact);
  if (got == nearest && std::signbit(got) == std::signbit(nearest)) return 0.5;
  if (got == 0 && nearest == 0) return std::numeric_limits<double>::infinity();
  if (std::isinf(got) || std::isinf(nearest) || std::isnan(got) || std::isnan(exact))
    return std::numeric_limits<double>::infinity();
  int exponent = 0;
  std::frexp(nearest, &exponent);
  return std::abs(static_cast<double>(got) - exact) /
         std::ldexp(1.0, std::max(exponent - 24, -149));
}

std::vector<WorstError> worst_errors(const std::string& name,
                                     const std::function<double(double)>& exact,
                                     const ErrorOf& error, std::int64_t stride,
                                     const std::string& more_operands) {
  const TestRegion region = make_region(
      "fn @main(%x: Tensor[(n), f32]) -> Tensor[(n), f32]\n  where n in [0, 100000000] {\n  %y = " +
      name + "(%x" + more_operands + ")\n  return %y\n}");
  const std::vector<Target> levels = targets();
  std::vector<TestKernel> kernels;
  std::vector<WorstError> worst;
  for (const Target& target : levels) {
    kernels.push_back(compile(region, target, {}, candidates(region, target, {}).front()));
    worst.push_back({.level = target.level});
  }
  std::vector<double> wanted(chunk);
  std::int64_t bits = 0;
  while (bits < (std::int64_t{1} << 32)) {
    ir::Tensor input(ir::DType::F32, {chunk});
    auto values = input.mutable_as<std::uint32_t>();
    for (std::int64_t i = 0; i < chunk; ++i, bits += stride)
      values[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(bits);
    // The neighbourhood of every power of two, 0, infinity and NaN included, in the first chunk.
    if (bits == chunk * stride) {
      for (std::uint32_t i = 0; i < 512; ++i) {
        for (std::uint32_t k = 0; k < 8; ++k) values[i * 8 + k] = (i << 23) + k - 4;
      }
    }
    const auto x = input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) wanted[i] = exact(static_cast<double>(x[i]));
    for (std::size_t level = 0; level < levels.size(); ++level) {
      const auto got = run(region, levels[level], kernels[level], {{"n", chunk}}, {input}, 1);
      const auto y = got[0].as<float>();
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double off = error(x[i], y[i], wanted[i]);
        if (!(off <= worst[level].error)) worst[level] = {worst[level].level, off, x[i]};
      }
    }
  }
  return worst;
}

}  // namespace anydim::codegen_cpu::testing
