#include "frontends/onnx/narrowing.h"

#include <cmath>
#include <limits>

namespace anydim::frontends {

namespace {

// The lowest bits of an integer, as the number that they are in a type of so many.
Value lowest_bits(Node& node, Value x, const NarrowType& to) {
  const Value wide = cast(x, DType::I32);
  if (to.held == DType::U8) {
    const Value mask = node.scalar(DType::I32, static_cast<double>(to.highest()));
    return cast(node.emit(Op::bit_and, {wide, mask}), to.held);
  }
  const Value above = node.scalar(DType::I32, 32 - to.bits);
  const Value highest = node.emit(Op::shift_left, {wide, above});
  return cast(node.emit(Op::shift_right, {highest, above}), to.held);
}

// The nearest of a float's numbers, halves to even, as f32.
Value rounded(Node& node, Value x, const NarrowFloat& to) {
  const auto bits = [&](std::int64_t pattern) {
    return node.scalar(DType::I32, static_cast<double>(pattern));
  };
  const auto with = [&](Op op, Value a, Value b) { return node.emit(op, {a, b}); };
  constexpr int mantissa_of_f32 = 23;
  const std::int64_t cut = mantissa_of_f32 - to.mantissa_bits;
  const Value size = abs(x);
  // Half of what the last bit is worth is added to the pattern, less one where that bit is even; a
  // carry goes into the exponent, as it has to.
  const Value pattern = node.emit(Op::bitcast, {size}, {{"to", DType::I32}});
  const Value odd = with(Op::bit_and, with(Op::shift_right, pattern, bits(cut)), bits(1));
  const Value half = pattern + ((std::int64_t{1} << (cut - 1)) - 1) + odd;
  const Value above = with(Op::bit_and, half, bits(-(std::int64_t{1} << cut)));
  const Value normal = node.emit(Op::bitcast, {above}, {{"to", DType::F32}});
  // Below, numbers are multiples of one: an f32 whose last bit is worth as much rounds to them.
  const double shift = std::ldexp(1.0, to.lowest_exponent() - to.mantissa_bits + mantissa_of_f32);
  const Value subnormal = size + shift - shift;
  const Value is_below = size < std::ldexp(1.0, to.lowest_exponent());
  return where(is_below, subnormal, normal);
}

Value narrowed(Node& node, Value x, const ElementType& type, bool saturate) {
  const NarrowFloat& to = *type.narrow->real;
  if (!to.has_sign) {
    node.unsupported("makes {}; Anydim reads tensors of it and makes none", type.name);
  }
  x = cast(x, DType::F32);
  const double highest = to.highest();
  double beyond = highest;
  if (!saturate && to.special != NarrowFloat::Special::None) {
    beyond = to.special == NarrowFloat::Special::Infinities
                 ? std::numeric_limits<double>::infinity()
                 : std::numeric_limits<double>::quiet_NaN();
  }
  Value size = rounded(node, x, to);
  const Value is_beyond = highest < size;
  size = where(is_beyond, beyond, size);
  Value result = where(x < 0, -size, size);
  // Where there is a -0, one of x stays, which no comparison tells; else 0 has no sign.
  const Value zero = to.special == NarrowFloat::Special::NegativeZeroIsNan ? size : x;
  result = where(equal(zero, 0), zero, result);
  return cast(where(node.emit(Op::is_nan, {x}), x, result), type.held());
}

}  // namespace

Value saturated(Node& node, Value x, const ElementType& to) {
  if (!to.narrow) return cast(x, *to.dtype);  // saturates
  x = max(x, to.narrow->lowest());
  x = cast(min(x, to.narrow->highest()), to.held());
  node.set_element_type(x, to);
  return x;
}

Value converted(Node& node, Value x, const ElementType& to, bool saturate) {
  if (!to.narrow) {
    if (!node.element_type_of(x).narrow || x.dtype() != *to.dtype) return cast(x, *to.dtype);
    // The same numbers, as a value of another type.
    const Value plain = node.emit(Op::cast, {x}, {{"to", *to.dtype}});
    node.set_element_type(plain, to);
    return plain;
  }
  if (&node.element_type_of(x) == &to) return x;
  const Value result =
      to.narrow->real ? narrowed(node, x, to, saturate) : lowest_bits(node, x, *to.narrow);
  node.set_element_type(result, to);
  return result;
}

}  // namespace anydim::frontends
