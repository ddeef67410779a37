// Regions of the map and rows kernel kinds, and products over windows, with sizes and inputs that
// show their edges: one corpus for every device's kernels.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/region_fixture.h"

namespace anydim::tests {

// changes the random inputs
using FillInputs = std::function<void(std::vector<ir::Tensor>& inputs)>;

// Inputs that the region's one check refuses.
struct RegionFault {
  SymbolValues symbols;
  FillInputs fill;
  std::optional<std::int64_t> value{};  // as the error slot has it; absent: any
};

struct RegionCase {
  std::string name;
  std::string text;
  std::vector<SymbolValues> shapes;
  // those for an interpreter, which is slow; empty: all of them
  std::vector<SymbolValues> interpreted{};
  double tolerance = 2e-5;
  FillInputs fill{};
  std::vector<RegionFault> faults{};

  const std::vector<SymbolValues>& few_shapes() const {
    return interpreted.empty() ? shapes : interpreted;
  }
};

const RegionCase& region_case(const std::string& name);
std::vector<std::string> region_case_names();   // of the map and rows kernel kinds
std::vector<std::string> product_case_names();  // of the matmul kernel kind

}  // namespace anydim::tests
