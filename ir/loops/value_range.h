// What a step of a scalar program can be: an interval of numbers of its dtype, which holds every
// value that the model's own arithmetic can give.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "ir/dims/symbols.h"
#include "ir/loops/loop_form.h"

namespace anydim::ir {

struct ValueRange {
  double low = 0, high = 0;  // infinities are values too; of 64-bit integers beyond 2^53 the next
                             // double outwards
  bool nan = false;          // it may be NaN as well

  bool single() const { return low == high && !nan; }
  bool finite() const;  // neither NaN nor infinite
  double magnitude() const { return std::max(std::abs(low), std::abs(high)); }
  bool operator==(const ValueRange&) const = default;
};

ValueRange every_value(DType dtype);
ValueRange every_finite_value(DType dtype);
ValueRange number_range(double value);
ValueRange united(const ValueRange& a, const ValueRange& b);

// What a step other than a Load may be, from the ranges and dtypes of its operands. Corners are
// computed by
// the reference evaluator in the step's dtype, whose rounding keeps order; integers that may leave
// their limits, which wrap, may be anything.
struct OperandRange {
  ValueRange range;
  DType dtype = DType::F32;
};
ValueRange range_of_step(const ScalarStep& step, std::span<const OperandRange> operands,
                         const SymbolTable& symbols);

}  // namespace anydim::ir
