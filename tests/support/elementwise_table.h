// The table of elementwise ops: what each accepts and what it gives, by functions that share
// nothing with the compiler.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/ops.h"
#include "ir/tensor.h"
#include "ir/type.h"

namespace anydim::tests {

// Wide enough that every result is exact (integers) or off by no more than its last rounding
// (reals) before it is stored.
using WideInteger = __int128;
using WideReal = long double;

// Ops of one operand ignore the second. Logical ops and comparisons give 0 or 1.
struct ElementwiseRow {
  std::string_view op;
  std::string attributes;  // as text; empty: the defaults
  bool exact;              // reals: the result is the nearest to the reference's, not one close by
  std::function<WideReal(WideReal, WideReal)> on_reals;  // absent: floats are refused
  std::function<WideInteger(WideInteger, WideInteger)>
      on_integers{};                           // absent: integers are refused
  std::function<bool(bool, bool)> on_bools{};  // absent: bools are refused

  const ir::OpInfo& info() const { return ir::info(*ir::op_named(op)); }
  int operands() const { return info().minimum_operands; }
  bool accepts(ir::DType dtype) const;
  ir::DType result(ir::DType dtype) const;  // of operands of the dtype
  // `op(%x)` or `op(%x, %y)`, with the attributes.
  std::string applied(std::string_view x, std::string_view y) const;
  // The result of one element each of tensors of one dtype, as a tensor of rank 0.
  ir::Tensor reference(const ir::Tensor& x, std::int64_t x_at, const ir::Tensor& y,
                       std::int64_t y_at) const;
};

// Every elementwise op but cast, bitcast and where, which take other operands or give other dtypes:
// they have files in tests/ir/ops.
std::span<const ElementwiseRow> elementwise_rows();
std::span<const ir::DType> all_dtypes();

// How far a float may be off where a row isn't exact, relative to max(1, |expected|).
double elementwise_tolerance(ir::DType dtype);

// Every pair of special values: zeros, ends of ranges, infinities, NaN, denormals. No zeros among
// integer divisors.
std::vector<ir::Tensor> special_pairs(ir::DType dtype);
// The same values of operand 0 or 1 of them, in turn.
ir::Tensor special_values(ir::DType dtype, std::vector<std::int64_t> extents, std::size_t operand);

}  // namespace anydim::tests
