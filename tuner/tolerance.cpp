#include "tuner/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/dims/symbols.h"

namespace anydim::tuner {

namespace {

template <typename Got, typename Want>
std::string differing_reals(std::int64_t count, double tolerance, const Got& got,
                            const Want& want) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (const double value = std::fabs(want(i)); std::isfinite(value)) sum += value;
  const double mean = count > 0 ? sum / static_cast<double>(count) : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double a = got(i), b = want(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!(std::fabs(a - b) <= tolerance * (std::fabs(b) + mean)))
      return fmt::format("element {} is {:.6g}, expected {:.6g}", i, a, b);
  }
  return {};
}

}  // namespace

double tolerance_of(const ir::Region& region) {
  double tolerance = 1e-9;
  for (const ir::Value& value : region.body.values) {
    if (!value.type.is_tensor()) continue;
    switch (value.type.tensor.dtype) {
      case ir::DType::BF16: tolerance = std::max(tolerance, 4e-2); break;
      case ir::DType::F16: tolerance = std::max(tolerance, 5e-3); break;
      case ir::DType::F32: tolerance = std::max(tolerance, 5e-4); break;
      default: break;  // the others are exact or finer
    }
  }
  return tolerance;
}

std::string differs(const ir::Tensor& got, const ir::Tensor& want, double tolerance) {
  if (got.dims() != want.dims() || got.dtype() != want.dtype()) return "another shape or dtype";
  const std::int64_t count = want.elements();
  if (!ir::is_float(want.dtype())) {
    for (std::int64_t i = 0; i < count; ++i)
      if (got.integer_at(i) != want.integer_at(i))
        return fmt::format("element {} is {}, expected {}", i, got.integer_at(i),
                           want.integer_at(i));
    return {};
  }
  if (want.dtype() == ir::DType::F32) {
    const auto a = got.as<float>(), b = want.as<float>();
    return differing_reals(
        count, tolerance, [&](std::int64_t i) { return a[static_cast<std::size_t>(i)]; },
        [&](std::int64_t i) { return b[static_cast<std::size_t>(i)]; });
  }
  return differing_reals(
      count, tolerance, [&](std::int64_t i) { return got.real_at(i); },
      [&](std::int64_t i) { return want.real_at(i); });
}

ir::Bucket whole_range(const ir::Region& region) {
  ir::Bucket whole;
  for (const ir::Dim& key : region.keys) {
    const ir::Interval range = ir::bounds(key, region.body.symbols);
    whole.intervals.push_back({std::max<std::int64_t>(range.low, 0), range.high,
                               std::max<std::int64_t>(ir::divisor(key, region.body.symbols), 1)});
  }
  return whole;
}

}  // namespace anydim::tuner
