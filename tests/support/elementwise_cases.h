// Every elementwise op on every element type, as regions of many results over special values: for
// tests of code generators.
#pragma once

#include <string>
#include <vector>

#include "ir/tensor.h"
#include "tests/support/elementwise_table.h"

namespace anydim::tests {

// A function @main(%x, %y) over operands of `dtype`, whose results are those of all rows, in the
// order of `names`.
struct ElementwiseCase {
  std::string text;
  std::vector<std::string> names;
  ir::DType dtype;
  double tolerance;  // relative to max(1, |expected|)
};
// The rows that take operands of `dtype` and give `result`, on operands of these dims.
struct ElementwiseDims {
  std::string x = "(n)", y = "(n)", result = "(n)";
};
ElementwiseCase elementwise_case(ir::DType dtype, ir::DType result,
                                 const ElementwiseDims& dims = {});
// Over (n): for each dtype the rows of its own results, those of bools, and cast and where.
std::vector<ElementwiseCase> elementwise_cases();

// The first result and place where `got` is off, with the operands; empty: nowhere.
std::string compare(const ElementwiseCase& tested, const std::vector<ir::Tensor>& inputs,
                    const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& expected);

}  // namespace anydim::tests
