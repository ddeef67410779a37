// Bodies of elementwise ops on reals (f32 and f64 registers), written once over the steps of a
// machine that each code generator brings. What the ops mean is ir/scalar.h's, whose
// evaluator shares nothing with these: it is what they are tested against.
#pragma once

#include <concepts>
#include <limits>
#include <numbers>
#include <optional>
#include <span>

#include "ir/error.h"
#include "ir/host_functions.h"
#include "ir/scalar.h"

namespace anydim::ir {

// A Value is a number of the operands' dtype or a truth. Steps are rounded to that dtype; nothing
// is contracted but multiply_add, which may be.
template <typename Machine>
concept RealMachine = requires(Machine& machine, typename Machine::Value a, Op op,
                               LibraryFunction function, double number) {
  { machine.real(number) } -> std::same_as<typename Machine::Value>;
  // known to be that number when the code is generated
  { machine.is_literal(a, number) } -> std::same_as<bool>;
  { machine.arithmetic(op, a, a) } -> std::same_as<typename Machine::Value>;  // add, sub, mul, div
  { machine.multiply_add(a, a, a) } -> std::same_as<typename Machine::Value>;
  // false where an operand is NaN
  { machine.compare(op, a, a) } -> std::same_as<typename Machine::Value>;
  { machine.is_nan(a) } -> std::same_as<typename Machine::Value>;
  { machine.never() } -> std::same_as<typename Machine::Value>;
  { machine.differ(a, a) } -> std::same_as<typename Machine::Value>;  // of two truths
  { machine.select(a, a, a) } -> std::same_as<typename Machine::Value>;
  { machine.negate(a) } -> std::same_as<typename Machine::Value>;
  { machine.magnitude(a) } -> std::same_as<typename Machine::Value>;
  // the magnitude of the first, the sign of the second
  { machine.copy_sign(a, a) } -> std::same_as<typename Machine::Value>;
  // floor, ceil, round (halves to even)
  { machine.integral(op, a) } -> std::same_as<typename Machine::Value>;
  { machine.square_root(a) } -> std::same_as<typename Machine::Value>;
  // min, max; NaN where either is
  { machine.extreme(op, a, a) } -> std::same_as<typename Machine::Value>;
  {
    machine.function(function, std::span<const typename Machine::Value>())
  } -> std::same_as<typename Machine::Value>;
  // of a value that is used several times
  {
    machine.with(a, [](typename Machine::Value kept) { return kept; })
  } -> std::same_as<typename Machine::Value>;
};

template <RealMachine Machine>
class RealBody {
 public:
  using Value = typename Machine::Value;

  RealBody(Machine& machine, const ScalarOp& op, std::span<const Value> operands)
      : m_(machine), op_(op), operands_(operands) {}

  Value value() {
    switch (op_.op) {  // NOLINT: the others are a library's functions, or not defined on reals
      case Op::abs: return m_.magnitude(a());
      case Op::neg: return m_.negate(a());
      case Op::sign: return sign();
      case Op::floor:
      case Op::ceil:
      case Op::round: return m_.integral(op_.op, a());
      case Op::sqrt: return m_.square_root(a());
      case Op::reciprocal: return div(m_.real(1), a());
      case Op::relu: return m_.select(m_.compare(Op::less, a(), m_.real(0)), m_.real(0), a());
      case Op::sigmoid:
        return div(m_.real(1), add(call(LibraryFunction::exp, m_.negate(a())), m_.real(1)));
      case Op::gelu:
        return half_of_a_times_one_plus(
            call(LibraryFunction::erf, mul(a(), m_.real(std::numbers::sqrt2 / 2))));
      case Op::gelu_tanh: return gelu_tanh();
      case Op::is_nan: return m_.is_nan(a());
      case Op::is_inf: return is_infinite();
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::div: return m_.arithmetic(op_.op, a(), b());
      case Op::mod:
        return op_.truncate ? m_.function(LibraryFunction::fmod, operands_) : floored_remainder();
      case Op::pow: return power();
      case Op::min:
      case Op::max: return m_.extreme(op_.op, a(), b());
      case Op::equal:
      case Op::less:
      case Op::less_equal:
      case Op::greater:
      case Op::greater_equal: return m_.compare(op_.op, a(), b());
      default: break;
    }
    const std::optional<LibraryFunction> function = library_function(op_.op);
    internal_check(function.has_value(), "an op on reals has a body");
    return m_.function(*function, operands_);
  }

 private:
  const Value& a() const { return operands_[0]; }
  const Value& b() const { return operands_[1]; }
  Value add(const Value& x, const Value& y) { return m_.arithmetic(Op::add, x, y); }
  Value mul(const Value& x, const Value& y) { return m_.arithmetic(Op::mul, x, y); }
  Value div(const Value& x, const Value& y) { return m_.arithmetic(Op::div, x, y); }
  Value call(LibraryFunction function, const Value& x) {
    return m_.function(function, std::span(&x, 1));
  }

  Value half_of_a_times_one_plus(const Value& inner) {
    return mul(mul(a(), m_.real(0.5)), add(inner, m_.real(1)));
  }

  // The argument is sqrt(2 / pi) (x + 0.044715 x^3).
  Value gelu_tanh() {
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    const Value factor = m_.multiply_add(mul(a(), a()), m_.real(scale * 0.044715), m_.real(scale));
    return half_of_a_times_one_plus(call(LibraryFunction::tanh, mul(a(), factor)));
  }

  Value sign() {
    const Value positive =
        m_.select(m_.compare(Op::greater, a(), m_.real(0)), m_.real(1), m_.real(0));
    const Value known = m_.select(m_.compare(Op::less, a(), m_.real(0)), m_.real(-1), positive);
    return m_.select(m_.is_nan(a()), a(), known);
  }

  Value is_infinite() {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (op_.negative && op_.positive)
      return m_.compare(Op::equal, m_.magnitude(a()), m_.real(infinity));
    if (op_.negative || op_.positive)
      return m_.compare(Op::equal, a(), m_.real(op_.positive ? infinity : -infinity));
    return m_.never();
  }

  // With the divisor's sign, a zero's too.
  Value floored_remainder() {
    return m_.with(m_.function(LibraryFunction::fmod, operands_), [&](const Value& rest) {
      const Value zero = m_.real(0);
      const Value off =
          m_.differ(m_.compare(Op::less, rest, zero), m_.compare(Op::less, b(), zero));
      const Value moved = m_.select(off, add(rest, b()), rest);
      return m_.select(m_.compare(Op::equal, rest, zero), m_.copy_sign(rest, b()), moved);
    });
  }

  // What models raise to by products, quotients and roots, which are as good as pow.
  Value power() {
    if (m_.is_literal(b(), 1)) return a();
    if (m_.is_literal(b(), 2)) return mul(a(), a());
    if (m_.is_literal(b(), 3)) return mul(mul(a(), a()), a());
    if (m_.is_literal(b(), 0.5)) return positive_root();
    if (m_.is_literal(b(), -0.5)) return div(m_.real(1), positive_root());
    if (m_.is_literal(b(), -1)) return div(m_.real(1), a());
    if (m_.is_literal(b(), -2))
      return m_.with(div(m_.real(1), a()), [&](const Value& x) { return mul(x, x); });
    return m_.function(LibraryFunction::pow, operands_);
  }

  // As pow has it: +0 of -0, and infinity of -infinity.
  Value positive_root() {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return m_.select(m_.compare(Op::equal, a(), m_.real(-infinity)), m_.real(infinity),
                     m_.magnitude(m_.square_root(a())));
  }

  Machine& m_;
  ScalarOp op_;
  std::span<const Value> operands_;
};

}  // namespace anydim::ir
