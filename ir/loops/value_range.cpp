#include "ir/loops/value_range.h"

#include <initializer_list>
#include <limits>
#include <vector>

#include "ir/loops/scalar_program.h"
#include "ir/overloaded.h"
#include "ir/reference/evaluate.h"

namespace anydim::ir {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr ValueRange none{infinity, -infinity, false};
constexpr ValueRange both_truths{0, 1, false};

Tensor tensor_of(DType dtype, double value) {
  Tensor tensor(dtype, {});
  tensor.set_real(0, value);
  return tensor;
}

ValueRange truth(bool holds) { return number_range(holds ? 1 : 0); }

// The range around a number that was computed in f64, beyond which the exact one cannot lie.
ValueRange outwards(double value) {
  if (std::abs(value) < 0x1p53) return number_range(value);
  return {std::nextafter(value, -infinity), std::nextafter(value, infinity), false};
}

class OpRange {
 public:
  OpRange(const ScalarStep& step, std::span<const OperandRange> operands)
      : step_(step), operands_(operands) {}

  ValueRange range() const {
    if (info(step_.op()).has(traits::compares)) return compared();
    if (info(step_.op()).has(traits::logical)) return logical();
    if (step_.op() == Op::cast) return cast();
    if (step_.op() == Op::bitcast) return every_value(step_.dtype);
    if (step_.op() == Op::where) return chosen();
    if (step_.dtype == DType::Bool) return both_truths;
    return is_float(step_.dtype) ? real() : integer();
  }

 private:
  const ValueRange& operand(std::size_t i) const { return operands_[i].range; }

  // ---- Corners ----

  bool is_narrow() const { return is_half(step_.dtype); }

  // The op on numbers of a dtype.
  double at(double a, double b, DType dtype) const {
    std::vector<Tensor> numbers{tensor_of(dtype, a)};
    if (operands_.size() > 1) numbers.push_back(tensor_of(dtype, b));
    return apply_elementwise(scalar_op(step_), dtype, numbers)->real_at(0);
  }

  // The range of an op that rises or falls along each operand, whatever the other one is. It is
  // computed in floats of the step's own dtype, and of f32 where that is narrower, since kernels
  // need not round between ops; for integers in f64.
  ValueRange corners() const { return corners({operand(0).low, operand(0).high}); }
  ValueRange corners(std::initializer_list<double> firsts) const {
    const ValueRange second = operands_.size() > 1 ? operand(1) : number_range(0);
    ValueRange result = none;
    for (const double a : firsts) {
      for (const double b : {second.low, second.high}) {
        const double value = at(a, b, is_float(step_.dtype) ? step_.dtype : DType::F64),
                     wide = is_narrow() ? at(a, b, DType::F32) : value;
        if (std::isnan(value) || std::isnan(wide)) return every_value(step_.dtype);
        result =
            united(result, is_float(step_.dtype) ? united(number_range(value), number_range(wide))
                                                 : outwards(value));
      }
    }
    return result;
  }

  // Libraries differ in the last bits, and need not keep order there.
  ValueRange loosened(ValueRange range) const {
    if (std::isfinite(range.low)) range.low -= 1e-2 * std::abs(range.low);
    if (std::isfinite(range.high)) range.high += 1e-2 * std::abs(range.high);
    return range;
  }

  bool one_of(std::initializer_list<Op> ops) const {
    return std::ranges::find(ops, step_.op()) != ops.end();
  }

  // ---- Reals ----

  bool any_nan() const {
    return std::ranges::any_of(operands_,
                               [](const OperandRange& operand) { return operand.range.nan; });
  }
  static bool holds_zero(const ValueRange& range) { return range.low <= 0 && range.high >= 0; }
  static bool holds_infinity(const ValueRange& range) {
    return std::isinf(range.low) || std::isinf(range.high);
  }

  // NaN gives NaN, and other operands give what they give without it.
  bool passes_nan_on() const {
    // The others may give a number for NaN.
    return one_of({Op::add,     Op::sub, Op::mul, Op::div,   Op::neg,  Op::abs,      Op::reciprocal,
                   Op::sqrt,    Op::min, Op::max, Op::floor, Op::ceil, Op::round,    Op::tanh,
                   Op::sigmoid, Op::erf, Op::sin, Op::cos,   Op::gelu, Op::gelu_tanh});
  }
  ValueRange beside_nan() const {
    std::vector<OperandRange> numbers(operands_.begin(), operands_.end());
    for (OperandRange& operand : numbers) operand.range.nan = false;
    ValueRange range = OpRange(step_, numbers).range();
    range.nan = true;
    return range;
  }

  ValueRange real() const {
    const ValueRange anything = every_value(step_.dtype);
    if (any_nan()) return passes_nan_on() ? beside_nan() : anything;
    if (one_of({Op::add, Op::sub, Op::min, Op::max, Op::neg, Op::sign, Op::floor, Op::ceil,
                Op::round, Op::relu}))
      return corners();
    const ValueRange& a = operand(0);
    switch (step_.op()) {  // NOLINT: the others may be anything
      case Op::mul: {
        const ValueRange& b = operand(1);
        const bool undefined =
            (holds_zero(a) && holds_infinity(b)) || (holds_zero(b) && holds_infinity(a));
        return undefined ? anything : corners();
      }
      case Op::div: return holds_zero(operand(1)) ? anything : corners();
      case Op::reciprocal: return holds_zero(a) ? anything : corners();
      case Op::abs: return holds_zero(a) ? corners({a.low, 0.0, a.high}) : corners();
      case Op::sqrt: return a.low < 0 ? anything : corners();
      case Op::mod: return real_remainder();
      default: return is_function_of_reals(step_.op()) ? function() : anything;
    }
  }

  ValueRange real_remainder() const {
    const ValueRange &a = operand(0), &b = operand(1);
    if (holds_infinity(a) || holds_infinity(b) || holds_zero(b)) return every_value(step_.dtype);
    return remainder_up_to(std::max(std::abs(b.low), std::abs(b.high)));
  }

  // It has the sign of the dividend where quotients are truncated, else that of the divisor.
  ValueRange remainder_up_to(double most) const {
    const ValueRange& sign = scalar_op(step_).truncate ? operand(0) : operand(1);
    return {sign.low < 0 ? -most : 0, sign.high > 0 ? most : 0, false};
  }

  ValueRange function() const {
    const ValueRange anything = every_value(step_.dtype);
    if (one_of({Op::exp, Op::sinh, Op::asinh, Op::atan, Op::tanh, Op::sigmoid, Op::erf}))
      return loosened(corners());
    const ValueRange& a = operand(0);
    switch (step_.op()) {  // NOLINT: the others may be anything
      case Op::log: return a.low < 0 ? anything : loosened(corners());
      case Op::acosh: return a.low < 1 ? anything : loosened(corners());
      case Op::asin:
      case Op::acos:
      case Op::atanh: return a.low < -1 || a.high > 1 ? anything : loosened(corners());
      case Op::cosh: return loosened(holds_zero(a) ? corners({a.low, 0.0, a.high}) : corners());
      case Op::sin:
      case Op::cos: return holds_infinity(a) ? anything : ValueRange{-1, 1, false};
      // They fall to -0.17 below 0, and rise from 0 on.
      case Op::gelu:
      case Op::gelu_tanh:
        return holds_infinity(a)
                   ? anything
                   : ValueRange{a.low >= 0 ? 0 : -0.2, std::max(0.0, 1.01 * a.high), false};
      case Op::pow: return power();
      default: return anything;
    }
  }

  // With a base that is not negative it rises or falls along both operands; with any base a whole
  // exponent makes it even or odd.
  ValueRange power() const {
    const ValueRange &a = operand(0), &b = operand(1);
    if (a.low > 0 || (a.low == 0 && b.low >= 0)) return loosened(corners());
    const bool whole =
        b.single() && b.low >= 0 && b.low == std::trunc(b.low) && std::isfinite(b.low);
    if (!whole) return every_value(step_.dtype);
    return loosened(holds_zero(a) ? corners({a.low, 0.0, a.high}) : corners());
  }

  // ---- Integers ----

  // Nothing wraps where both ends are within the limits.
  ValueRange within_limits(const ValueRange& range) const {
    const ValueRange limits = every_value(step_.dtype);
    const bool wide = size_of(step_.dtype) == 8;  // the highest number has no double
    const bool inside =
        range.low >= limits.low && (wide ? range.high < limits.high : range.high <= limits.high);
    return inside ? range : limits;
  }

  ValueRange integer() const {
    if (one_of({Op::add, Op::sub, Op::mul, Op::neg, Op::sign, Op::relu, Op::min, Op::max}))
      return within_limits(corners());
    const ValueRange &a = operand(0), anything = every_value(step_.dtype);
    switch (step_.op()) {  // NOLINT: the others may be anything
      case Op::abs: return within_limits(holds_zero(a) ? corners({a.low, 0.0, a.high}) : corners());
      case Op::div: {
        if (holds_zero(operand(1))) return anything;
        const ValueRange quotients = corners();
        return within_limits({std::trunc(quotients.low), std::trunc(quotients.high), false});
      }
      case Op::mod: {
        const ValueRange& b = operand(1);
        if (holds_zero(b)) return anything;
        return within_limits(remainder_up_to(std::max(std::abs(b.low), std::abs(b.high)) - 1));
      }
      case Op::bit_not: {
        const double least = every_value(step_.dtype).low, most = every_value(step_.dtype).high;
        if (size_of(step_.dtype) == 8) return anything;
        return {least + most - a.high, least + most - a.low, false};
      }
      case Op::bit_and:
        return a.low >= 0 && operand(1).low >= 0
                   ? ValueRange{0, std::min(a.high, operand(1).high), false}
                   : anything;
      default: return anything;
    }
  }

  // ---- Truths, casts and choices ----

  ValueRange compared() const {
    const ValueRange& a = operand(0);
    if (step_.op() == Op::is_nan) return a.nan ? both_truths : truth(false);
    if (step_.op() == Op::is_inf) return holds_infinity(a) || a.nan ? both_truths : truth(false);
    const ValueRange& b = operand(1);
    if (any_nan()) return both_truths;
    const auto ordered = [](const ValueRange& x, const ValueRange& y,
                            bool equal_too) -> ValueRange {
      if (equal_too ? x.high <= y.low : x.high < y.low) return truth(true);
      if (equal_too ? x.low > y.high : x.low >= y.high) return truth(false);
      return both_truths;
    };
    switch (step_.op()) {  // NOLINT: those that compare two numbers
      case Op::less: return ordered(a, b, false);
      case Op::less_equal: return ordered(a, b, true);
      case Op::greater: return ordered(b, a, false);
      case Op::greater_equal: return ordered(b, a, true);
      default: break;
    }
    if (a.high < b.low || b.high < a.low) return truth(false);
    return a.single() && a == b ? truth(true) : both_truths;
  }

  ValueRange logical() const {
    const ValueRange& a = operand(0);
    if (step_.op() == Op::logical_not) return {1 - a.high, 1 - a.low, false};
    const ValueRange& b = operand(1);
    switch (step_.op()) {  // NOLINT: those of two bools
      case Op::logical_and: return {std::min(a.low, b.low), std::min(a.high, b.high), false};
      case Op::logical_or: return {std::max(a.low, b.low), std::max(a.high, b.high), false};
      default: return a.single() && b.single() ? truth(a.low != b.low) : both_truths;
    }
  }

  ValueRange cast() const {
    const ValueRange& a = operand(0);
    const DType from = operands_[0].dtype, to = step_.dtype;
    if (to == DType::Bool) {
      if (a.low == 0 && a.high == 0 && !a.nan) return truth(false);
      return !holds_zero(a) ? truth(true) : both_truths;
    }
    if (is_float(to)) {
      const auto rounded = [&](double value) {
        return apply_elementwise({.op = Op::cast}, to, std::vector{tensor_of(DType::F64, value)})
            ->real_at(0);
      };
      return {rounded(a.low), rounded(a.high), a.nan};
    }
    if (!is_float(from)) return within_limits(a);
    // Truncates and saturates; NaN gives 0.
    const ValueRange limits = every_value(to);
    const auto inside = [&](double value) {
      return std::clamp(std::trunc(value), limits.low, limits.high);
    };
    const ValueRange range{inside(a.low), inside(a.high), false};
    return a.nan ? united(range, number_range(0)) : range;
  }

  ValueRange chosen() const {
    const ValueRange& condition = operand(0);
    return condition.single() ? operand(condition.low != 0 ? 1 : 2)
                              : united(operand(1), operand(2));
  }

  const ScalarStep& step_;
  std::span<const OperandRange> operands_;
};

ValueRange dim_range(const Dim& dim, const SymbolTable& symbols) {
  const Interval range = bounds(dim, symbols);
  if (range.low == Interval{}.low || range.high == Interval{}.high) return every_value(DType::I64);
  return {outwards(static_cast<double>(range.low)).low,
          outwards(static_cast<double>(range.high)).high, false};
}

}  // namespace

bool ValueRange::finite() const { return !nan && std::isfinite(low) && std::isfinite(high); }

ValueRange number_range(double value) {
  return std::isnan(value) ? every_value(DType::F64) : ValueRange{value, value, false};
}

ValueRange united(const ValueRange& a, const ValueRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.nan || b.nan};
}

ValueRange every_value(DType dtype) {
  if (is_float(dtype)) return {-infinity, infinity, true};
  if (dtype == DType::Bool) return both_truths;
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  if (is_signed(dtype))
    return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - (bits < 64 ? 1 : 0), false};
  return {0, std::ldexp(1.0, bits) - (bits < 64 ? 1 : 0), false};
}

ValueRange every_finite_value(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return {-std::numeric_limits<double>::max(), std::numeric_limits<double>::max(), false};
    case DType::F32:
      return {-std::numeric_limits<float>::max(), std::numeric_limits<float>::max(), false};
    case DType::BF16: return {-0x1.fep127, 0x1.fep127, false};
    case DType::F16: return {-65504, 65504, false};
    default: return every_value(dtype);
  }
}

ValueRange range_of_step(const ScalarStep& step, std::span<const OperandRange> operands,
                         const SymbolTable& symbols) {
  const Overloaded range{
      [&](const step::Constant& constant) {
        if (is_float(step.dtype)) return number_range(constant.real);
        return outwards(step.dtype == DType::U64
                            ? static_cast<double>(static_cast<std::uint64_t>(constant.integer))
                            : static_cast<double>(constant.integer));
      },
      [&](const step::Extent& extent) { return dim_range(extent.value, symbols); },
      [&](const step::Guarded&) { return united(operands[0].range, operands[1].range); },
      [&](const step::Apply&) { return OpRange(step, operands).range(); },
      [&](const step::CheckedIndex&) { return every_value(step.dtype); },
      [&](const step::Load&) { return every_value(step.dtype); },
      [&](const step::Accumulated&) { return every_value(step.dtype); },
      [&](const step::Scratch&) { return every_value(step.dtype); },
  };
  return std::visit(range, step.kind);
}

}  // namespace anydim::ir
