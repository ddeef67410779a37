// Bodies of elementwise ops on integers and on bools, written once over the steps of a machine that
// each code generator brings, as those on reals are (ir/real_body.h). What the ops mean is
// ir/scalar.h's.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "ir/error.h"
#include "ir/scalar.h"

namespace anydim::ir {

// A Value is a number of the operands' dtype or a truth; steps on numbers wrap.
template <typename Machine>
concept IntegerMachine =
    requires(Machine& machine, typename Machine::Value a, Op op, std::int64_t number) {
      { machine.integer(number) } -> std::same_as<typename Machine::Value>;
      { machine.wrapped(op, a, a) } -> std::same_as<typename Machine::Value>;  // add, sub, mul
      // bit_and, bit_or, bit_xor: of numbers, or of truths
      { machine.bits(op, a, a) } -> std::same_as<typename Machine::Value>;
      { machine.complement(a) } -> std::same_as<typename Machine::Value>;
      { machine.compare(op, a, a) } -> std::same_as<typename Machine::Value>;
      { machine.select(a, a, a) } -> std::same_as<typename Machine::Value>;
      { machine.extreme(op, a, a) } -> std::same_as<typename Machine::Value>;  // min, max
      // Towards zero; by 0, which is reported where the op is checked, 0.
      { machine.quotient(a, a) } -> std::same_as<typename Machine::Value>;
      { machine.remainder(a, a) } -> std::same_as<typename Machine::Value>;
      { machine.power(a, a) } -> std::same_as<typename Machine::Value>;
      // Whether a count, taken as unsigned, is below the width.
      { machine.counts_bits(a) } -> std::same_as<typename Machine::Value>;
      // By a count that is not, a signed number moves right by the width - 1; else it is any
      // number.
      { machine.shifted(op, a, a) } -> std::same_as<typename Machine::Value>;
      // of a value that is used several times
      {
        machine.with(a, [](typename Machine::Value kept) { return kept; })
      } -> std::same_as<typename Machine::Value>;
    };

template <IntegerMachine Machine>
class IntegerBody {
 public:
  using Value = typename Machine::Value;

  IntegerBody(Machine& machine, const ScalarOp& op, DType dtype, std::span<const Value> operands)
      : m_(machine), op_(op), dtype_(dtype), operands_(operands) {}

  Value value() { return dtype_ == DType::Bool ? on_bools() : on_integers(is_signed(dtype_)); }

 private:
  const Value& a() const { return operands_[0]; }
  const Value& b() const { return operands_[1]; }

  Value on_bools() {
    switch (op_.op) {  // NOLINT: other ops aren't defined on bools
      case Op::logical_not:
      case Op::bit_not: return m_.complement(a());
      case Op::logical_and:
      case Op::bit_and:
      case Op::min:
      case Op::mul: return m_.bits(Op::bit_and, a(), b());
      case Op::logical_or:
      case Op::bit_or:
      case Op::max:
      case Op::add: return m_.bits(Op::bit_or, a(), b());
      case Op::logical_xor:
      case Op::bit_xor: return m_.bits(Op::bit_xor, a(), b());
      default: return comparison();
    }
  }

  Value on_integers(bool has_sign) {
    switch (op_.op) {  // NOLINT: other ops aren't defined on integers
      case Op::abs: return has_sign ? m_.select(negative(a()), negated(), a()) : a();
      case Op::neg: return negated();
      case Op::sign: {
        const Value most = m_.extreme(Op::min, a(), m_.integer(1));
        return has_sign ? m_.extreme(Op::max, most, m_.integer(-1)) : most;
      }
      case Op::relu: return has_sign ? m_.extreme(Op::max, a(), m_.integer(0)) : a();
      case Op::floor:
      case Op::ceil:
      case Op::round: return a();
      case Op::bit_not: return m_.complement(a());
      case Op::add:
      case Op::sub:
      case Op::mul: return m_.wrapped(op_.op, a(), b());
      case Op::div: return m_.quotient(a(), b());
      case Op::mod: return has_sign && !op_.truncate ? floored_remainder() : m_.remainder(a(), b());
      case Op::pow: return m_.power(a(), b());
      case Op::min:
      case Op::max: return m_.extreme(op_.op, a(), b());
      case Op::bit_and:
      case Op::bit_or:
      case Op::bit_xor: return m_.bits(op_.op, a(), b());
      case Op::shift_left:
      case Op::shift_right: {
        Value moved = m_.shifted(op_.op, a(), b());
        if (has_sign && op_.op == Op::shift_right) return moved;
        return m_.select(m_.counts_bits(b()), moved, m_.integer(0));
      }
      default: return comparison();
    }
  }

  Value comparison() {
    switch (op_.op) {  // NOLINT: comparisons only
      case Op::equal:
      case Op::less:
      case Op::less_equal:
      case Op::greater:
      case Op::greater_equal: return m_.compare(op_.op, a(), b());
      default: internal_error("an op on integers or bools has a body");
    }
  }

  Value negative(const Value& x) { return m_.compare(Op::less, x, m_.integer(0)); }
  Value negated() { return m_.wrapped(Op::sub, m_.integer(0), a()); }

  // With the divisor's sign.
  Value floored_remainder() {
    return m_.with(m_.remainder(a(), b()), [&](const Value& rest) {
      const Value moved = m_.select(negative(m_.bits(Op::bit_xor, rest, b())),
                                    m_.wrapped(Op::add, rest, b()), rest);
      return m_.select(m_.compare(Op::equal, rest, m_.integer(0)), rest, moved);
    });
  }

  Machine& m_;
  ScalarOp op_;
  DType dtype_;
  std::span<const Value> operands_;
};

}  // namespace anydim::ir
