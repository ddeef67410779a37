// add, sub, mul, fma, min, max ... of integers and reals. Reals follow IEEE; a NaN that arithmetic
// makes is the hardware's canonical one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

template <class T>
T canonical_nan() {
  if constexpr (sizeof(T) == 4) return std::bit_cast<float>(0x7fff'ffffU);
  else return std::bit_cast<double>(0xfff8'0000'0000'0000U);
}
template <class T>
T canonical(T value) {
  return value != value ? canonical_nan<T>() : value;
}
// Denormals become zero of the same sign.
template <bool ftz, class T>
T flush(T value) {
  if constexpr (ftz) {
    if (std::fabs(value) < std::numeric_limits<T>::min()) return std::copysign(T{0}, value);
  }
  return value;
}
template <bool sat, class T>
T saturate(T value) {
  if constexpr (sat) {
    if (!(value > 0)) return 0;
    return std::min(value, T{1});
  }
  return value;
}

// -0 is less than +0; a NaN gives way to a number unless `keeps_nan`.
template <class T>
T least(T a, T b, bool keeps_nan) {
  if (a != a || b != b) {
    if (keeps_nan || (a != a && b != b)) return canonical_nan<T>();
    return a != a ? b : a;
  }
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <class T, bool ftz, bool sat>
struct Real {
  static T in(T value) { return flush<ftz>(value); }
  static T out(T value) { return canonical(saturate<sat>(flush<ftz>(value))); }
  static T add(T a, T b) { return out(in(a) + in(b)); }
  static T sub(T a, T b) { return out(in(a)-in(b)); }
  static T mul(T a, T b) { return out(in(a)*in(b)); }
  static T div(T a, T b) { return out(in(a) / in(b)); }
  static T fma(T a, T b, T c) { return out(std::fma(in(a), in(b), in(c))); }
  static T min(T a, T b) { return out(least(in(a), in(b), false)); }
  static T max(T a, T b) { return out(-least(-in(a), -in(b), false)); }
  static T min_nan(T a, T b) { return out(least(in(a), in(b), true)); }
  static T max_nan(T a, T b) { return canonical(out(-least(-in(a), -in(b), true))); }
  static T abs(T a) { return std::fabs(in(a)); }
  static T neg(T a) { return -in(a); }
};

template <class T, bool ftz, bool sat>
Execute pick(std::string_view opcode, bool keeps_nan) {
  using R = Real<T, ftz, sat>;
  if (opcode == "add") return binary<T, T, T, R::add>;
  if (opcode == "sub") return binary<T, T, T, R::sub>;
  if (opcode == "mul") return binary<T, T, T, R::mul>;
  if (opcode == "div") return binary<T, T, T, R::div>;
  if (opcode == "fma" || opcode == "mad") return ternary<T, T, T, T, R::fma>;
  if (opcode == "min") return keeps_nan ? binary<T, T, T, R::min_nan> : binary<T, T, T, R::min>;
  if (opcode == "max") return keeps_nan ? binary<T, T, T, R::max_nan> : binary<T, T, T, R::max>;
  if (opcode == "abs") return unary<T, T, R::abs>;
  if (opcode == "neg") return unary<T, T, R::neg>;
  return nullptr;
}

void decode_arithmetic(Decoder& decoder) {
  // The type is looked for behind .lo, .wide, .rn and the like; take_type skips what is no type.
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  if (!is_float(type)) {
    instruction.execute = integer_arithmetic(decoder, type);
    return;
  }
  instruction.slot[0] = decoder.destination(0, type);
  for (std::size_t i = 1; i < decoder.operands(); ++i)
    instruction.slot.at(i) = decoder.source(i, type);
  instruction.execute = type == Type::f32 || type == Type::f64 ? real_arithmetic(decoder, type)
                                                               : half_arithmetic(decoder, type);
}

}  // namespace

Execute real_arithmetic(Decoder& decoder, Type type) {
  const std::string& opcode = decoder.text().opcode;
  const bool keeps_nan = decoder.take("NaN");
  const bool ftz = decoder.take("ftz");
  const bool sat = decoder.take("sat");
  const std::string_view rounding = decoder.take_any({"rn", "rz", "rm", "rp", "approx", "full"});
  Execute result = nullptr;
  if (rounding == "rz" || rounding == "rm" || rounding == "rp") {
    if (ftz || sat)
      decoder.instruction.flags = static_cast<std::uint8_t>((ftz ? 1 : 0) | (sat ? 2 : 0));
    if (opcode == "add" || opcode == "sub" || opcode == "mul" || opcode == "div" ||
        opcode == "fma" || opcode == "mad")
      std::tie(result, decoder.instruction.detail) = directed_arithmetic(opcode, type, rounding);
  } else if (type == Type::f64) {
    result = ftz || sat ? nullptr : pick<double, false, false>(opcode, keeps_nan);
  } else if (ftz) {
    result = sat ? pick<float, true, true>(opcode, keeps_nan)
                 : pick<float, true, false>(opcode, keeps_nan);
  } else {
    result = sat ? pick<float, false, true>(opcode, keeps_nan)
                 : pick<float, false, false>(opcode, keeps_nan);
  }
  if (result == nullptr) decoder.unknown("not in this form");
  return result;
}

void add_arithmetic_opcodes(OpcodeTable& table) {
  for (const char* opcode : {"add", "sub", "mul", "mad", "fma", "div", "min", "max", "abs", "neg"})
    table[opcode] = decode_arithmetic;
}

}  // namespace anydim::ptx
