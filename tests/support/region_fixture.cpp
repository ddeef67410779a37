#include "tests/support/region_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "ir/reference/evaluate.h"
#include "ir/region.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"

namespace anydim::tests {

TestRegion make_region(const std::string& text, std::vector<std::uint32_t> weights) {
  TestRegion result;
  result.module = ir::parse(text);
  ir::infer_types(result.module);
  result.region.name = "test";
  result.region.body = result.module.functions.front();
  result.region.weights = std::move(weights);
  ir::seal(result.region);
  ir::set_form(result.region, ir::derive_loop_form(result.region));
  result.form = *result.region.form;
  return result;
}

ir::Bucket bucket_of(std::vector<ir::BucketInterval> intervals) {
  return {.intervals = std::move(intervals)};
}

std::int64_t value_at(const ir::Dim& dim, const SymbolValues& symbols) {
  return dim.evaluate([&](const ir::DimLeaf& leaf) { return symbols.at(leaf.symbol); });
}

std::vector<std::int64_t> values_at(const std::vector<ir::Dim>& dims, const SymbolValues& symbols) {
  std::vector<std::int64_t> result;
  for (const ir::Dim& dim : dims) result.push_back(value_at(dim, symbols));
  return result;
}

std::vector<SymbolValues> sizes(const std::string& name, const std::vector<std::int64_t>& values) {
  std::vector<SymbolValues> result;
  for (const std::int64_t value : values) result.push_back({{name, value}});
  return result;
}

std::vector<SymbolValues> pairs(const std::string& first, const std::vector<std::int64_t>& values,
                                const std::string& second,
                                const std::vector<std::int64_t>& others) {
  std::vector<SymbolValues> result;
  for (const std::int64_t value : values)
    for (const std::int64_t other : others) result.push_back({{first, value}, {second, other}});
  return result;
}

namespace {

// Bytes take all their values, as products of them do in models; sums and powers of wider ones
// should stay small.
std::pair<std::int64_t, std::int64_t> drawn_range(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::Bool: return {0, 1};
    case ir::DType::U8: return {0, 255};
    case ir::DType::I8: return {-128, 127};
    default: return {-9, 9};
  }
}

}  // namespace

std::string windows_along(const std::string& extent, std::int64_t border, std::int64_t places,
                          std::int64_t dilation, std::int64_t stride) {
  const std::int64_t more = 2 * border - (places - 1) * dilation - 1;
  return fmt::format("(floor_div({} {} {}, {}) + 1)", extent, more < 0 ? "-" : "+", std::abs(more),
                     stride);
}

std::vector<ir::Tensor> random_inputs(const TestRegion& region, const SymbolValues& symbols,
                                      std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<ir::Tensor> inputs;
  const ir::Function& body = region.region.body;
  for (const ir::ValueId parameter : body.body.parameters) {
    const ir::TensorType& type = body.tensor_type(parameter);
    ir::Tensor tensor(type.dtype, values_at(type.dims, symbols));
    const auto [least, most] = drawn_range(type.dtype);
    std::uniform_int_distribution<std::int64_t> integer(least, most);
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (ir::is_float(type.dtype))
        tensor.set_real(i, std::uniform_real_distribution<double>(-1, 1)(random));
      else tensor.set_integer(i, integer(random));
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::vector<ir::Tensor> reference(const TestRegion& region, const std::vector<ir::Tensor>& inputs) {
  return ir::evaluate(region.module, region.module.functions.front(), inputs);
}

double difference(const ir::Tensor& a, const ir::Tensor& b) {
  if (a.dims() != b.dims() || a.dtype() != b.dtype())
    return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const double x = a.real_at(i), y = b.real_at(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y) continue;
    const double off = std::abs(x - y) / (1 + std::abs(y));
    worst = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(worst, off);
  }
  return worst;
}

}  // namespace anydim::tests
