// A region given as text, inputs for it and what it should compute: for tests of code generators.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/loops/loop_form.h"
#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/tensor.h"

namespace anydim::tests {

using SymbolValues = std::map<std::string, std::int64_t>;

// A module with one function, read from text, and that function as a region.
struct TestRegion {
  ir::Module module;
  ir::Region region;
  ir::LoopForm form;
};
// `weights`: parameter positions.
TestRegion make_region(const std::string& text, std::vector<std::uint32_t> weights = {});

// A bucket with one interval a key.
ir::Bucket bucket_of(std::vector<ir::BucketInterval> intervals);

std::int64_t value_at(const ir::Dim& dim, const SymbolValues& symbols);
std::vector<std::int64_t> values_at(const std::vector<ir::Dim>& dims, const SymbolValues& symbols);
// {{name, values[0]}}, {{name, values[1]}}, ...
std::vector<SymbolValues> sizes(const std::string& name, const std::vector<std::int64_t>& values);
// Every first with every second value.
std::vector<SymbolValues> pairs(const std::string& first, const std::vector<std::int64_t>& values,
                                const std::string& second, const std::vector<std::int64_t>& others);

// How many windows of `places` lie along an extent with a border on both sides, as a dim's text.
std::string windows_along(const std::string& extent, std::int64_t border, std::int64_t places,
                          std::int64_t dilation = 1, std::int64_t stride = 1);

// Uniform in [-1, 1) (floats) or [-9, 9] (integers), from a seeded generator; dims at the given
// symbol values.
std::vector<ir::Tensor> random_inputs(const TestRegion& region, const SymbolValues& symbols,
                                      std::uint32_t seed);
std::vector<ir::Tensor> reference(const TestRegion& region, const std::vector<ir::Tensor>& inputs);

// Largest |a - b| / (1 + |b|); infinite where only one is NaN, or dims differ.
double difference(const ir::Tensor& a, const ir::Tensor& b);

}  // namespace anydim::tests
