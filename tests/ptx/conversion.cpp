// cvt between every pair of number types, with all roundings, and packing of 16-bit pairs.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>

#include "tests/ptx/half.h"
#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

enum class Rounding : std::uint8_t { Nearest, Zero, Down, Up, NearestAway };

struct Conversion {
  Type to = Type::b32, from = Type::b32;
  Rounding rounding = Rounding::Nearest;
  bool rounds_to_integer = false;  // .rni and its like between reals
  bool sat = false, ftz = false, relu = false, satfinite = false;
  bool to_wide = false, from_wide = false;
};

double round_to_integer(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::Zero: return std::trunc(value);
    case Rounding::Down: return std::floor(value);
    case Rounding::Up: return std::ceil(value);
    case Rounding::NearestAway: return std::round(value);
    case Rounding::Nearest: return std::nearbyint(value);
  }
  return value;
}

// The neighbour of `rounded` on the other side of `exact` where the rounding asks for it. step
// gives the next value up or down.
template <class Value, class Widen, class Step>
Value direct(Value rounded, double exact, Rounding rounding, Widen widen, Step step) {
  const double is = widen(rounded);
  if (is == exact || std::isnan(is)) return rounded;
  const bool went_up = is > exact;
  const bool wants_up = rounding == Rounding::Up || (rounding == Rounding::Zero && exact < 0);
  const bool wants_down = rounding == Rounding::Down || (rounding == Rounding::Zero && exact > 0);
  if (went_up && wants_down) return step(rounded, false);
  if (!went_up && wants_up) return step(rounded, true);
  return rounded;
}

std::uint16_t step_half(std::uint16_t bits, bool up) {
  const bool negative = (bits & 0x8000) != 0;
  if ((bits & 0x7fff) == 0) return up ? 0x0001 : 0x8001;
  return static_cast<std::uint16_t>(negative == up ? bits - 1 : bits + 1);
}

template <class Format>
std::uint16_t narrow(double value, const Conversion& conversion) {
  if (conversion.relu && (value < 0 || (value == 0 && std::signbit(value)))) value = 0;
  if (conversion.sat) value = value > 0 ? std::min(value, 1.0) : 0;
  std::uint16_t bits = Format::narrow(value);
  if (conversion.rounding != Rounding::Nearest)
    bits = direct(bits, value, conversion.rounding, Format::widen, step_half);
  if (conversion.satfinite && std::isinf(Format::widen(bits)))
    bits = step_half(bits, (bits & 0x8000) != 0);
  return bits;
}

std::uint32_t narrow_single(double value, const Conversion& conversion) {
  if (conversion.sat) value = value > 0 ? std::min(value, 1.0) : 0;
  auto result = static_cast<float>(value);
  if (std::isnan(value)) return 0x7fff'ffff;
  if (conversion.rounding != Rounding::Nearest)
    result = direct(
        result, value, conversion.rounding, [](float x) { return static_cast<double>(x); },
        [](float x, bool up) { return std::nextafterf(x, up ? INFINITY : -INFINITY); });
  if (conversion.ftz && std::fabs(result) < std::numeric_limits<float>::min())
    result = std::copysign(0.0F, result);
  return std::bit_cast<std::uint32_t>(result);
}

// tf32 keeps 10 bits of the fraction; ties go to even, or away from zero (.rna).
std::uint32_t narrow_tf32(double value, const Conversion& conversion) {
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return 0x7fff'ffff;
  if ((bits & 0x7f80'0000) == 0x7f80'0000) return bits;
  if (conversion.rounding == Rounding::NearestAway) bits += 0x1000;
  else if (conversion.rounding == Rounding::Nearest) bits += 0xfff + (bits >> 13 & 1);
  if (conversion.relu && (bits >> 31) != 0) bits = 0;
  return bits & ~0x1fffU;
}

double widen(std::uint64_t bits, const Conversion& conversion) {
  switch (conversion.from) {
    case Type::f16: return HalfFormat::widen(static_cast<std::uint16_t>(bits));
    case Type::bf16: return BfloatFormat::widen(static_cast<std::uint16_t>(bits));
    case Type::f64: return std::bit_cast<double>(bits);
    default: {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      return conversion.ftz && std::fabs(value) < std::numeric_limits<float>::min()
                 ? std::copysign(0.0, value)
                 : static_cast<double>(value);
    }
  }
}

// Reals outside the range give its nearest end, NaN gives 0.
std::uint64_t to_integer(double value, const Conversion& conversion) {
  value = round_to_integer(value, conversion.rounding);
  const int bits = 8 * type_bytes(conversion.to);
  if (std::isnan(value)) return bits == 64 ? 0x8000'0000'0000'0000U : 0;
  if (is_signed(conversion.to)) {
    const double limit = std::ldexp(1.0, bits - 1);
    if (value >= limit)
      return static_cast<std::uint64_t>((std::int64_t{1} << (bits - 2)) - 1 +
                                        (std::int64_t{1} << (bits - 2)));
    if (value < -limit) return static_cast<std::uint64_t>(-(std::int64_t{1} << (bits - 2)) * 2);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  }
  if (value >= std::ldexp(1.0, bits))
    return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  return value <= 0 ? 0 : static_cast<std::uint64_t>(value);
}

std::uint64_t extend(std::uint64_t bits, Type type) {
  switch (type) {
    case Type::s8: return static_cast<std::uint64_t>(static_cast<std::int8_t>(bits));
    case Type::s16: return static_cast<std::uint64_t>(static_cast<std::int16_t>(bits));
    case Type::s32: return static_cast<std::uint64_t>(static_cast<std::int32_t>(bits));
    case Type::u8: return bits & 0xff;
    case Type::u16: return bits & 0xffff;
    case Type::u32: return bits & 0xffff'ffff;
    default: return bits;
  }
}

std::uint64_t clamp_integer(std::uint64_t bits, Type from, Type to) {
  const int width = 8 * type_bytes(to);
  if (width == 64 && is_signed(from) == is_signed(to)) return bits;
  if (!is_signed(from)) {
    const std::uint64_t limit = is_signed(to) ? (std::uint64_t{1} << (width - 1)) - 1
                                : width == 64 ? ~std::uint64_t{0}
                                              : (std::uint64_t{1} << width) - 1;
    return std::min(bits, limit);
  }
  const auto value = static_cast<std::int64_t>(bits);
  if (!is_signed(to))
    return value < 0 ? 0 : width == 64 ? bits : std::min(bits, (std::uint64_t{1} << width) - 1);
  const std::int64_t limit = (std::int64_t{1} << (width - 1)) - 1;
  return static_cast<std::uint64_t>(std::clamp(value, -limit - 1, limit));
}

std::uint64_t from_integer(std::uint64_t bits, const Conversion& conversion) {
  // 64-bit integers are rounded straight to the result's type; double is exact for all others.
  const bool negative = is_signed(conversion.from) && static_cast<std::int64_t>(bits) < 0;
  if (conversion.to == Type::f64 ||
      (conversion.to == Type::f32 && type_bytes(conversion.from) == 8)) {
    const int before = std::fegetround();
    const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    std::fesetround(modes[static_cast<int>(conversion.rounding)]);
    std::uint64_t result = 0;
    if (conversion.to == Type::f64) {
      const volatile auto value = negative ? static_cast<double>(static_cast<std::int64_t>(bits))
                                           : static_cast<double>(bits);
      result = std::bit_cast<std::uint64_t>(static_cast<double>(value));
    } else {
      const volatile auto value =
          negative ? static_cast<float>(static_cast<std::int64_t>(bits)) : static_cast<float>(bits);
      result = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    }
    std::fesetround(before);
    return result;
  }
  const double value =
      negative ? static_cast<double>(static_cast<std::int64_t>(bits)) : static_cast<double>(bits);
  if (conversion.to == Type::f16) return narrow<HalfFormat>(value, conversion);
  if (conversion.to == Type::bf16) return narrow<BfloatFormat>(value, conversion);
  return narrow_single(value, conversion);
}

std::uint64_t convert(std::uint64_t bits, const Conversion& conversion) {
  const bool from_real = is_float(conversion.from), to_real = is_float(conversion.to);
  if (!from_real) {
    bits = extend(bits, conversion.from);
    if (to_real) return from_integer(bits, conversion);
    if (conversion.sat) bits = clamp_integer(bits, conversion.from, conversion.to);
    return extend(bits, conversion.to);
  }
  double value = widen(bits, conversion);
  if (!to_real) return extend(to_integer(value, conversion), conversion.to);
  if (conversion.rounds_to_integer) value = round_to_integer(value, conversion.rounding);
  switch (conversion.to) {
    case Type::f16: return narrow<HalfFormat>(value, conversion);
    case Type::bf16: return narrow<BfloatFormat>(value, conversion);
    case Type::tf32: return narrow_tf32(value, conversion);
    case Type::f64:
      if (conversion.sat) value = value > 0 ? std::min(value, 1.0) : 0;
      return std::bit_cast<std::uint64_t>(value);
    default: return narrow_single(value, conversion);
  }
}

Outcome execute_cvt(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& conversion = instruction.get<Conversion>();
  for_each_lane(mask, [&](int lane) {
    const std::uint64_t bits = conversion.from_wide
                                   ? warp.lanes<std::uint64_t>(instruction.slot[1])[lane]
                                   : warp.lanes<std::uint32_t>(instruction.slot[1])[lane];
    const std::uint64_t result = convert(bits, conversion);
    if (conversion.to_wide) warp.lanes<std::uint64_t>(instruction.slot[0])[lane] = result;
    else warp.lanes<std::uint32_t>(instruction.slot[0])[lane] = static_cast<std::uint32_t>(result);
  });
  return Outcome::Next;
}

// The frequent conversions without a change of type at run time.
template <class To, class From>
Outcome execute_integer_cvt(Warp& warp, const Instruction& instruction, LaneMask mask) {
  return unary<To, From, [](From value) { return static_cast<To>(value); }>(warp, instruction,
                                                                            mask);
}

Outcome execute_pair(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& conversion = instruction.get<Conversion>();
  auto* out = warp.lanes<std::uint32_t>(instruction.slot[0]);
  const auto* high = warp.lanes<std::uint32_t>(instruction.slot[1]);
  const auto* low = warp.lanes<std::uint32_t>(instruction.slot[2]);
  const bool is_half = conversion.to == Type::f16x2;
  for_each_lane(mask, [&](int lane) {
    const double above = static_cast<double>(std::bit_cast<float>(high[lane])),
                 below = static_cast<double>(std::bit_cast<float>(low[lane]));
    const std::uint32_t upper =
        is_half ? narrow<HalfFormat>(above, conversion) : narrow<BfloatFormat>(above, conversion);
    const std::uint32_t lower =
        is_half ? narrow<HalfFormat>(below, conversion) : narrow<BfloatFormat>(below, conversion);
    out[lane] = upper << 16 | lower;
  });
  return Outcome::Next;
}

void take_rounding(Decoder& decoder, Conversion& conversion) {
  const std::string_view rounding =
      decoder.take_any({"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"});
  if (rounding.empty()) return;
  conversion.rounds_to_integer = rounding.size() == 3 && rounding.back() == 'i';
  if (rounding == "rna") conversion.rounding = Rounding::NearestAway;
  else if (rounding[1] == 'z') conversion.rounding = Rounding::Zero;
  else if (rounding[1] == 'm') conversion.rounding = Rounding::Down;
  else if (rounding[1] == 'p') conversion.rounding = Rounding::Up;
}

Execute quick(const Conversion& conversion) {
  if (conversion.sat || is_float(conversion.to) || is_float(conversion.from)) return nullptr;
  const bool same = conversion.from_wide == (type_bytes(conversion.from) == 8) &&
                    conversion.to_wide == (type_bytes(conversion.to) == 8);
  if (!same) return nullptr;
  if (conversion.to == Type::u64 && conversion.from == Type::u32)
    return execute_integer_cvt<std::uint64_t, std::uint32_t>;
  if (conversion.to == Type::s64 && conversion.from == Type::s32)
    return execute_integer_cvt<std::int64_t, std::int32_t>;
  if (conversion.to == Type::u32 && conversion.from == Type::u64)
    return execute_integer_cvt<std::uint32_t, std::uint64_t>;
  return nullptr;
}

void decode_cvt(Decoder& decoder) {
  auto conversion = std::make_shared<Conversion>();
  take_rounding(decoder, *conversion);
  conversion->ftz = decoder.take("ftz");
  conversion->sat = decoder.take("sat");
  conversion->relu = decoder.take("relu");
  conversion->satfinite = decoder.take("satfinite");
  conversion->to = decoder.take_type();
  conversion->from = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  if (conversion->to == Type::f16x2 || conversion->to == Type::bf16x2) {
    if (conversion->from != Type::f32) decoder.unknown("pairs are made of f32");
    instruction.slot[0] = decoder.destination(0, Type::b32);
    instruction.slot[1] = decoder.source(1, Type::f32);
    instruction.slot[2] = decoder.source(2, Type::f32);
    instruction.execute = execute_pair;
  } else {
    instruction.slot[0] =
        decoder.any_destination(decoder.operand(0), conversion->to, conversion->to_wide);
    instruction.slot[1] =
        decoder.any_source(decoder.operand(1), conversion->from, conversion->from_wide);
    const Execute fast = quick(*conversion);
    instruction.execute = fast != nullptr ? fast : execute_cvt;
  }
  instruction.detail = conversion;
}

}  // namespace

void add_conversion_opcodes(OpcodeTable& table) { table["cvt"] = decode_cvt; }

}  // namespace anydim::ptx
