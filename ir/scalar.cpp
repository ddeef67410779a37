#include "ir/scalar.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "ir/error.h"
#include "ir/host_functions.h"

namespace anydim::ir {
namespace {

template <typename Real>
Real floor_mod(Real a, Real b) {
  const Real remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(remainder, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

template <typename Real>
Real sign_of(Real a) {
  return std::isnan(a) ? a : static_cast<Real>((a > 0) - (a < 0));
}

template <typename Real>
Real lesser(Real a, Real b) {
  return std::isnan(a) || a < b ? a : b;
}

template <typename Real>
Real greater(Real a, Real b) {
  return std::isnan(a) || a > b ? a : b;
}

// Unsigned arithmetic wraps; signed overflow has no meaning in C++.
template <typename Integer, typename Operation>
Integer wrapping(Integer a, Integer b, Operation operation) {
  return static_cast<Integer>(
      operation(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

template <typename Integer>
Integer negated(Integer a) {
  return wrapping<Integer>(0, a, [](auto x, auto y) { return x - y; });
}

template <typename Integer>
Integer integer_power(Integer base, Integer exponent) {
  if constexpr (std::is_signed_v<Integer>) {
    // A reciprocal below one truncates to zero.
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  }
  auto factor = static_cast<std::uint64_t>(base);
  std::uint64_t power = 1;
  for (auto rest = static_cast<std::uint64_t>(exponent); rest != 0; rest >>= 1) {
    if (rest & 1) power *= factor;
    factor *= factor;
  }
  return static_cast<Integer>(power);
}

template <typename Integer>
Integer truncating_quotient(Integer a, Integer b) {
  if constexpr (std::is_signed_v<Integer>) {
    if (b == -1) return negated(a);  // the lowest value divided by -1 traps
  }
  return a / b;
}

template <typename Integer>
Integer remainder_of(Integer a, Integer b, bool truncate) {
  if constexpr (std::is_signed_v<Integer>) {
    if (b == -1) return 0;
    const Integer remainder = a % b;
    return !truncate && remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
  } else {
    return a % b;
  }
}

// A count is unsigned, and one of the width or more leaves nothing. Narrower integers come here
// widened, where bits that a narrow integer loses are lost when the caller wraps; a count between
// the widths does so too.
template <typename Integer>
Integer shifted_left(Integer a, Integer count) {
  const auto bits = static_cast<std::uint64_t>(count);
  return bits >= 64 ? 0 : static_cast<Integer>(static_cast<std::uint64_t>(a) << bits);
}

template <typename Integer>
Integer shifted_right(Integer a, Integer count) {
  const auto bits = static_cast<std::uint64_t>(count);
  if (bits >= 64) return a < 0 ? static_cast<Integer>(-1) : 0;
  return static_cast<Integer>(a >> bits);
}

}  // namespace

ScalarOp scalar_op(const Binding& binding) {
  ScalarOp op{.op = binding.op};
  if (binding.op == Op::mod) op.truncate = integer_attribute(binding, "truncate") != 0;
  if (binding.op == Op::is_inf) {
    op.negative = integer_attribute(binding, "negative") != 0;
    op.positive = integer_attribute(binding, "positive") != 0;
  }
  return op;
}

namespace {

double call(RealFunction<1> function, double a, double) { return function(a); }
double call(RealFunction<2> function, double a, double b) { return function(a, b); }

// Functions that libm rounds; nothing where the op is plain arithmetic.
std::optional<double> function_of_reals(Op op, double a, double b) {
  switch (op) {  // NOLINT: the others are arithmetic
#define ANYDIM_FUNCTION(name, operands) \
  case Op::name: return call(static_cast<RealFunction<operands>>(std::name), a, b);
#include "ir/library_functions.def"
#undef ANYDIM_FUNCTION
    case Op::sigmoid: return 1 / (1 + std::exp(-a));
    case Op::gelu: return 0.5 * a * (1 + std::erf(a / std::numbers::sqrt2));
    case Op::gelu_tanh:
      return 0.5 * a *
             (1 + std::tanh(std::sqrt(2 * std::numbers::inv_pi) * (a + 0.044715 * a * a * a)));
    default: return std::nullopt;
  }
}

}  // namespace

bool is_function_of_reals(Op op) { return function_of_reals(op, 0, 0).has_value(); }

template <typename Real>
Real apply_real(const ScalarOp& op, Real a, Real b) {
  switch (op.op) {  // NOLINT: functions and ops that never reach here come after
    case Op::abs: return std::fabs(a);
    case Op::neg: return -a;
    case Op::sign: return sign_of(a);
    case Op::floor: return std::floor(a);
    case Op::ceil: return std::ceil(a);
    case Op::round: return std::nearbyint(a);
    case Op::sqrt: return std::sqrt(a);
    case Op::reciprocal: return Real(1) / a;
    case Op::relu: return a < 0 ? Real(0) : a;
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::mod: return op.truncate ? std::fmod(a, b) : floor_mod(a, b);
    case Op::min: return lesser(a, b);
    case Op::max: return greater(a, b);
    default: break;
  }
  // In f64 for f32 as well: an oracle should be off by no more than its last rounding.
  if (const std::optional<double> value = function_of_reals(op.op, a, b))
    return static_cast<Real>(*value);
  internal_error("the op has a body for reals");
}

template <typename Integer>
Integer apply_integer(const ScalarOp& op, Integer a, Integer b) {
  switch (op.op) {  // NOLINT: ops that never reach here fail below
    case Op::abs: return a < 0 ? negated(a) : a;
    case Op::neg: return negated(a);
    case Op::sign: return static_cast<Integer>((a > 0) - (a < 0));
    case Op::relu: return a < 0 ? 0 : a;
    case Op::logical_not: return a == 0 ? 1 : 0;
    case Op::bit_not: return ~a;
    case Op::add: return wrapping(a, b, [](auto x, auto y) { return x + y; });
    case Op::sub: return wrapping(a, b, [](auto x, auto y) { return x - y; });
    case Op::mul: return wrapping(a, b, [](auto x, auto y) { return x * y; });
    case Op::div: return truncating_quotient(a, b);
    case Op::mod: return remainder_of(a, b, op.truncate);
    case Op::pow: return integer_power(a, b);
    case Op::min: return std::min(a, b);
    case Op::max: return std::max(a, b);
    case Op::logical_and:
    case Op::bit_and: return a & b;
    case Op::logical_or:
    case Op::bit_or: return a | b;
    case Op::logical_xor:
    case Op::bit_xor: return a ^ b;
    case Op::shift_left: return shifted_left(a, b);
    case Op::shift_right: return shifted_right(a, b);
    default: break;
  }
  internal_error("the op has a body for integers");
}

template <typename Number>
bool apply_comparison(const ScalarOp& op, Number a, Number b) {
  switch (op.op) {  // NOLINT: ops that never reach here fail below
    case Op::equal: return a == b;
    case Op::less: return a < b;
    case Op::less_equal: return a <= b;
    case Op::greater: return a > b;
    case Op::greater_equal: return a >= b;
    default: break;
  }
  if constexpr (std::is_floating_point_v<Number>) {
    if (op.op == Op::is_nan) return std::isnan(a);
    if (op.op == Op::is_inf) return std::isinf(a) && (a < 0 ? op.negative : op.positive);
  }
  internal_error("the op has a body with a bool result");
}

template float apply_real(const ScalarOp&, float, float);
template double apply_real(const ScalarOp&, double, double);
template std::int64_t apply_integer(const ScalarOp&, std::int64_t, std::int64_t);
template std::uint64_t apply_integer(const ScalarOp&, std::uint64_t, std::uint64_t);
template bool apply_comparison(const ScalarOp&, float, float);
template bool apply_comparison(const ScalarOp&, double, double);
template bool apply_comparison(const ScalarOp&, std::int64_t, std::int64_t);
template bool apply_comparison(const ScalarOp&, std::uint64_t, std::uint64_t);

std::int64_t truncate_to_integer(double value, DType to) {
  if (std::isnan(value)) return 0;
  const double truncated = std::trunc(value);
  const int bits = static_cast<int>(size_of(to)) * 8;
  // the first number out of range
  const double high = std::ldexp(1.0, is_signed(to) ? bits - 1 : bits);
  const double low = is_signed(to) ? -high : 0.0;
  if (truncated <= low)
    return bits == 64 && is_signed(to) ? std::numeric_limits<std::int64_t>::min()
                                       : static_cast<std::int64_t>(low);
  if (truncated >= high) {
    if (bits < 64) return static_cast<std::int64_t>(high) - 1;
    return is_signed(to) ? std::numeric_limits<std::int64_t>::max()
                         : -1;  // -1 has the bits of u64's highest
  }
  return is_signed(to) ? static_cast<std::int64_t>(truncated)
                       : static_cast<std::int64_t>(static_cast<std::uint64_t>(truncated));
}

std::optional<std::int64_t> arange_length(double start, double stop, double step) {
  const double length = std::ceil((stop - start) / step);
  if (!(std::fabs(length) < 0x1p62)) return std::nullopt;
  return length > 0 ? static_cast<std::int64_t>(length) : 0;
}

}  // namespace anydim::ir
