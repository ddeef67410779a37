// Every elementwise op on every element type, as regions of many results over special values: for tests of code generators.
#pragma once

#include <string>
#include <vector>

#include "ir/tensor.h"
#include "ir/type.h"

namespace anydim::tests {

// A function @main(%x, %y) over (n), both of `dtype`; results in the order of `names`.
struct ElementwiseCase {
  std::string text;
  std::vector<std::string> names;
  ir::DType dtype;
  double tolerance;  // relative to max(1, |expected|)
};
std::vector<ElementwiseCase> elementwise_cases();

// Every pair of special values: zeros, ends of ranges, infinities, NaN, denormals. No zeros among integer divisors.
std::vector<ir::Tensor> special_pairs(ir::DType dtype);

// The first result and place where `got` is off, with the operands; empty: nowhere.
std::string compare(const ElementwiseCase& tested, const std::vector<ir::Tensor>& inputs, const std::vector<ir::Tensor>& got,
                    const std::vector<ir::Tensor>& expected);

// Elementwise ops of the table that no case has; empty where all is well.
std::vector<std::string> ops_without_case();

}  // namespace anydim::tests
