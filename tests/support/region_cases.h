// Regions of every kernel kind, with sizes and inputs that show their edges: one corpus for every
// device's kernels and for the interpreter of loop forms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
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

constexpr std::size_t every_candidate = std::numeric_limits<std::size_t>::max();

struct RegionCase {
  std::string name;
  std::string text;
  std::vector<std::uint32_t> weights{};  // positions of parameters that are
  std::vector<SymbolValues> shapes;
  // those for an interpreter, which is slow; empty: all of them
  std::vector<SymbolValues> interpreted{};
  double tolerance = 2e-5;
  std::size_t most = every_candidate;  // candidates of one target, the best first
  FillInputs fill{};
  std::vector<RegionFault> faults{};
  std::string kind{};  // the kernel kind's name; the corpus sets it

  const std::vector<SymbolValues>& few_shapes() const {
    return interpreted.empty() ? shapes : interpreted;
  }
};

const RegionCase& region_case(const std::string& name);
// Those of the kernel kinds named, or of all.
std::vector<std::string> region_case_names(const std::vector<std::string>& kinds = {});

// Keys to sort, the first input: few different numbers, so that many are equal, and the ends of the
// type's range, infinities, NaNs and zeros of both signs among them.
void fill_ties(std::vector<ir::Tensor>& inputs);

}  // namespace anydim::tests
