// Scalar bodies of elementwise ops: one element in, one element out. Shared by the reference
// evaluator and by constant folding.
//
// Arithmetic on reals is done in the type given (float for f32, f16 and bf16, double for f64),
// functions such as exp in double; the caller rounds into narrower floats. Integers are computed in
// 64 bits and wrap; the caller wraps into narrower ones. Bools are the integers 0 and 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/module.h"

namespace anydim::ir {

// An op with those of its attributes that scalar bodies read.
struct ScalarOp {
  Op op{};
  bool truncate = false;  // mod
  bool negative = true;   // is_inf
  bool positive = true;   // is_inf
};

ScalarOp scalar_op(const Binding& binding);

// Rounded by a library, and so not to the same last bit by every kernel; the others are exact or
// rounded once.
bool is_function_of_reals(Op op);

// Elementwise ops on float or double, except comparisons, cast, bitcast and where; `b` is ignored
// by ops of one operand.
template <typename Real>
Real apply_real(const ScalarOp& op, Real a, Real b);

// The same on std::int64_t or std::uint64_t and for logical ops on bools. Division and mod by zero
// are the caller's to refuse.
template <typename Integer>
Integer apply_integer(const ScalarOp& op, Integer a, Integer b);

// Ops with bool results, on float, double, std::int64_t or std::uint64_t.
template <typename Number>
bool apply_comparison(const ScalarOp& op, Number a, Number b);

// Truncates towards zero and saturates at the ends of the integer type `to`; NaN gives 0.
std::int64_t truncate_to_integer(double value, DType to);

// max(0, ceil((stop - start) / step)); nothing where that isn't a finite 64-bit number.
std::optional<std::int64_t> arange_length(double start, double stop, double step);
// What one of reals that only the run tells must have, as an assert says it.
inline constexpr std::string_view arange_demand = "an arange has a finite length below 2^31";

}  // namespace anydim::ir
