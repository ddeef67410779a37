#include "tests/frontends/tensor_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace anydim::frontends {
namespace {

struct Tolerance {
  double relative;
  double absolute;
};

Tolerance tolerance_for(const ir::Tensor& want) {
  if (ir::size_of(want.dtype()) == 2) return {1e-2, 1e-2};
  double largest = 0;
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    if (std::isfinite(want.real_at(i))) largest = std::max(largest, std::fabs(want.real_at(i)));
  }
  return {1e-3, std::max(1e-5, 1e-6 * largest)};
}

}  // namespace

std::string shape_text(const ir::Tensor& tensor) {
  std::string text = fmt::format("{} (", ir::name_of(tensor.dtype()));
  for (const std::int64_t dim : tensor.dims()) text += fmt::format("{},", dim);
  return text + ")";
}

std::string difference(const ir::Tensor& got, const ir::Tensor& want) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims()) {
    return fmt::format("expected {}, got {}", shape_text(want), shape_text(got));
  }
  if (!ir::is_float(want.dtype())) return got.same_bits(want) ? "" : "values differ";
  const Tolerance tolerance = tolerance_for(want);
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    const double a = got.real_at(i);
    const double b = want.real_at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::fabs(a - b) <= tolerance.absolute + tolerance.relative * std::fabs(b)) continue;
    return fmt::format("element {}: expected {}, got {}", i, b, a);
  }
  return "";
}

}  // namespace anydim::frontends
