#include "frontends/onnx/narrowing.h"

#include <cmath>
#include <limits>

namespace anydim::frontends {

namespace {

// The lowest bits of an integer, as the number that they are in a type of so many.
ValueId lowest_bits(Node& node, ValueId x, const NarrowType& to) {
  const ValueId wide = node.cast(x, DType::I32);
  if (to.held == DType::U8) {
    const ValueId mask = node.scalar(DType::I32, static_cast<double>(to.highest()));
    return node.cast(node.emit(Op::bit_and, {wide, mask}), to.held);
  }
  const ValueId above = node.scalar(DType::I32, 32 - to.bits);
  const ValueId highest = node.emit(Op::shift_left, {wide, above});
  return node.cast(node.emit(Op::shift_right, {highest, above}), to.held);
}

// The nearest of a float's numbers, halves to even, as f32.
ValueId rounded(Node& node, ValueId x, const NarrowFloat& to) {
  const auto bits = [&](std::int64_t pattern) {
    return node.scalar(DType::I32, static_cast<double>(pattern));
  };
  const auto with = [&](Op op, ValueId a, ValueId b) { return node.emit(op, {a, b}); };
  const auto number = [&](double value) { return node.scalar(DType::F32, value); };
  constexpr int mantissa_of_f32 = 23;
  const std::int64_t cut = mantissa_of_f32 - to.mantissa_bits;
  const ValueId size = node.emit(Op::abs, {x});
  // Half of what the last bit is worth is added to the pattern, less one where that bit is even; a
  // carry goes into the exponent, as it has to.
  const ValueId pattern = node.emit(Op::bitcast, {size}, {{"to", DType::I32}});
  const ValueId odd = with(Op::bit_and, with(Op::shift_right, pattern, bits(cut)), bits(1));
  const ValueId half =
      with(Op::add, with(Op::add, pattern, bits((std::int64_t{1} << (cut - 1)) - 1)), odd);
  const ValueId above = with(Op::bit_and, half, bits(-(std::int64_t{1} << cut)));
  const ValueId normal = node.emit(Op::bitcast, {above}, {{"to", DType::F32}});
  // Below, numbers are multiples of one: an f32 whose last bit is worth as much rounds to them.
  const ValueId shift =
      number(std::ldexp(1.0, to.lowest_exponent() - to.mantissa_bits + mantissa_of_f32));
  const ValueId subnormal = with(Op::sub, with(Op::add, size, shift), shift);
  const ValueId is_below = with(Op::less, size, number(std::ldexp(1.0, to.lowest_exponent())));
  return node.emit(Op::where, {is_below, subnormal, normal});
}

ValueId narrowed(Node& node, ValueId x, const ElementType& type, bool saturate) {
  const NarrowFloat& to = *type.narrow->real;
  if (!to.has_sign) {
    node.unsupported("makes {}; Anydim reads tensors of it and makes none", type.name);
  }
  x = node.cast(x, DType::F32);
  const auto number = [&](double value) { return node.scalar(DType::F32, value); };
  const double highest = to.highest();
  double beyond = highest;
  if (!saturate && to.special != NarrowFloat::Special::None) {
    beyond = to.special == NarrowFloat::Special::Infinities
                 ? std::numeric_limits<double>::infinity()
                 : std::numeric_limits<double>::quiet_NaN();
  }
  ValueId size = rounded(node, x, to);
  const ValueId is_beyond = node.emit(Op::less, {number(highest), size});
  size = node.emit(Op::where, {is_beyond, number(beyond), size});
  ValueId result =
      node.emit(Op::where, {node.emit(Op::less, {x, number(0)}), node.emit(Op::neg, {size}), size});
  // Where there is a -0, one of x stays, which no comparison tells; else 0 has no sign.
  const ValueId zero = to.special == NarrowFloat::Special::NegativeZeroIsNan ? size : x;
  result = node.emit(Op::where, {node.emit(Op::equal, {zero, number(0)}), zero, result});
  return node.cast(node.emit(Op::where, {node.emit(Op::is_nan, {x}), x, result}), type.held());
}

}  // namespace

ValueId saturated(Node& node, ValueId x, const ElementType& to) {
  if (!to.narrow) return node.cast(x, *to.dtype);  // saturates
  const auto end = [&](std::int64_t number) {
    return node.scalar(node.dtype(x), static_cast<double>(number));
  };
  x = node.emit(Op::max, {x, end(to.narrow->lowest())});
  x = node.cast(node.emit(Op::min, {x, end(to.narrow->highest())}), to.held());
  node.set_element_type(x, to);
  return x;
}

ValueId converted(Node& node, ValueId x, const ElementType& to, bool saturate) {
  if (!to.narrow) {
    if (!node.element_type_of(x).narrow || node.dtype(x) != *to.dtype)
      return node.cast(x, *to.dtype);
    // The same numbers, as a value of another type.
    const ValueId plain = node.emit(Op::cast, {x}, {{"to", *to.dtype}});
    node.set_element_type(plain, to);
    return plain;
  }
  if (&node.element_type_of(x) == &to) return x;
  const ValueId result =
      to.narrow->real ? narrowed(node, x, to, saturate) : lowest_bits(node, x, *to.narrow);
  node.set_element_type(result, to);
  return result;
}

}  // namespace anydim::frontends
