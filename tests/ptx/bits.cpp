// Logic, shifts and bit fields.
#include <algorithm>
#include <bit>

#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

template <auto f>
Execute logic(Decoder& decoder, Type type) {
  switch (type_bytes(type)) {
    case 2: return binary<u16, u16, u16, f>;
    case 4: return binary<u32, u32, u32, f>;
    case 8: return binary<u64, u64, u64, f>;
    default: decoder.unknown("the type does not fit");
  }
}

template <auto f>
Outcome predicate_logic(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const LaneMask a =
      warp.predicate(instruction.slot[1]) ^ ((instruction.flags & 1) != 0 ? ~0U : 0U);
  const LaneMask b =
      warp.predicate(instruction.slot[2]) ^ ((instruction.flags & 2) != 0 ? ~0U : 0U);
  warp.set_predicate(instruction.slot[0], mask, f(a, b));
  return Outcome::Next;
}

template <auto f>
void decode_logic(Decoder& decoder) {
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  instruction.slot[0] = decoder.destination(0, type);
  if (type == Type::pred) {
    bool a = false, b = false;
    instruction.slot[1] = decoder.predicate(decoder.operand(1), a);
    instruction.slot[2] = decoder.predicate(decoder.operand(2), b);
    instruction.flags = static_cast<std::uint8_t>((a ? 1 : 0) | (b ? 2 : 0));
    instruction.execute = predicate_logic<f>;
    return;
  }
  instruction.slot[1] = decoder.source(1, type);
  instruction.slot[2] = decoder.source(2, type);
  instruction.execute = logic<f>(decoder, type);
}

void decode_not(Decoder& decoder) {
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  instruction.slot[0] = decoder.destination(0, type);
  if (type == Type::pred) {
    bool negated = false;
    instruction.slot[1] = instruction.slot[2] = decoder.predicate(decoder.operand(1), negated);
    instruction.flags = negated ? 0 : 3;
    instruction.execute = predicate_logic<[](LaneMask a, LaneMask b) { return a & b; }>;
    return;
  }
  instruction.slot[1] = decoder.source(1, type);
  switch (type_bytes(type)) {
    case 2: instruction.execute = unary<u16, u16, [](u16 a) { return ~a; }>; break;
    case 4: instruction.execute = unary<u32, u32, [](u32 a) { return ~a; }>; break;
    default: instruction.execute = unary<u64, u64, [](u64 a) { return ~a; }>; break;
  }
}

// Shift amounts beyond the width give zero, or the sign.
template <class T>
T shift_left(T a, u32 b) {
  return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<u64>(a) << b);
}
template <class T>
T shift_right(T a, u32 b) {
  return static_cast<T>(a >> std::min<u32>(b, 8 * sizeof(T) - 1)) &
         static_cast<T>(std::is_signed_v<T> || b < 8 * sizeof(T) ? ~T{0} : T{0});
}

void decode_shift_left(Decoder& decoder) {
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  instruction.slot[0] = decoder.destination(0, type);
  instruction.slot[1] = decoder.source(1, type);
  instruction.slot[2] = decoder.source(2, Type::u32);
  switch (type_bytes(type)) {
    case 2: instruction.execute = binary<u16, u16, u32, shift_left<u16>>; break;
    case 4: instruction.execute = binary<u32, u32, u32, shift_left<u32>>; break;
    default: instruction.execute = binary<u64, u64, u32, shift_left<u64>>; break;
  }
}

void decode_shift_right(Decoder& decoder) {
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  instruction.slot[0] = decoder.destination(0, type);
  instruction.slot[1] = decoder.source(1, type);
  instruction.slot[2] = decoder.source(2, Type::u32);
  switch (type) {
    case Type::s16:
      instruction.execute = binary<std::int16_t, std::int16_t, u32, shift_right<std::int16_t>>;
      break;
    case Type::s32:
      instruction.execute = binary<std::int32_t, std::int32_t, u32, shift_right<std::int32_t>>;
      break;
    case Type::s64:
      instruction.execute = binary<std::int64_t, std::int64_t, u32, shift_right<std::int64_t>>;
      break;
    case Type::u16:
    case Type::b16: instruction.execute = binary<u16, u16, u32, shift_right<u16>>; break;
    case Type::u32:
    case Type::b32: instruction.execute = binary<u32, u32, u32, shift_right<u32>>; break;
    default: instruction.execute = binary<u64, u64, u32, shift_right<u64>>; break;
  }
}

void decode_funnel_shift(Decoder& decoder) {
  const std::string_view way = decoder.take_any({"l", "r"});
  const std::string_view mode = decoder.take_any({"wrap", "clamp"});
  decoder.demand("b32");
  Instruction& instruction = decoder.instruction;
  instruction.slot[0] = decoder.destination(0, Type::b32);
  for (std::size_t i = 1; i < 4; ++i) instruction.slot[i] = decoder.source(i, Type::b32);
  if (way == "l" && mode == "wrap")
    instruction.execute = ternary<u32, u32, u32, u32, [](u32 low, u32 high, u32 n) {
      return ((u64{high} << 32 | low) << (n & 31)) >> 32;
    }>;
  else if (way == "l")
    instruction.execute = ternary<u32, u32, u32, u32, [](u32 low, u32 high, u32 n) {
      return ((u64{high} << 32 | low) << std::min(n, 32U)) >> 32;
    }>;
  else if (mode == "wrap")
    instruction.execute = ternary<u32, u32, u32, u32, [](u32 low, u32 high, u32 n) {
      return (u64{high} << 32 | low) >> (n & 31);
    }>;
  else
    instruction.execute = ternary<u32, u32, u32, u32, [](u32 low, u32 high, u32 n) {
      return (u64{high} << 32 | low) >> std::min(n, 32U);
    }>;
}

Outcome execute_lop3(Warp& warp, const Instruction& instruction, LaneMask mask) {
  auto* out = warp.lanes<u32>(instruction.slot[0]);
  const auto* a = warp.lanes<u32>(instruction.slot[1]);
  const auto* b = warp.lanes<u32>(instruction.slot[2]);
  const auto* c = warp.lanes<u32>(instruction.slot[3]);
  const auto table = static_cast<u32>(instruction.immediate);
  for_each_lane(mask, [&](int lane) {
    u32 result = 0;
    for (u32 row = 0; row < 8; ++row) {
      if ((table >> row & 1) == 0) continue;
      result |= ((row & 4) != 0 ? a[lane] : ~a[lane]) & ((row & 2) != 0 ? b[lane] : ~b[lane]) &
                ((row & 1) != 0 ? c[lane] : ~c[lane]);
    }
    out[lane] = result;
  });
  return Outcome::Next;
}

u32 permute(u32 a, u32 b, u32 selectors) {
  const u64 bytes = u64{b} << 32 | a;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 selector = selectors >> (4 * i) & 0xf;
    u32 byte = static_cast<u32>(bytes >> (8 * (selector & 7))) & 0xff;
    if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

template <class T>
T extract_field(T a, u32 b, u32 c) {
  using Bits = std::make_unsigned_t<T>;
  constexpr u32 width = 8 * sizeof(T);
  const u32 position = b & 0xff, length = c & 0xff;
  const bool sign = std::is_signed_v<T> && length != 0 &&
                    (a >> std::min(position + length - 1, width - 1) & 1) != 0;
  const auto field =
      position >= width ? Bits{0} : static_cast<Bits>(static_cast<Bits>(a) >> position);
  if (length >= width - std::min(position, width)) {
    const u32 kept = width - std::min(position, width);
    if (kept == width || length == 0) return static_cast<T>(length == 0 ? Bits{0} : field);
    return static_cast<T>(sign ? field | static_cast<Bits>(~Bits{0} << kept) : field);
  }
  const auto low = static_cast<Bits>((Bits{1} << length) - 1);
  return static_cast<T>(sign ? (field & low) | static_cast<Bits>(~low) : field & low);
}

void decode_extract(Decoder& decoder) {
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  instruction.slot[0] = decoder.destination(0, type);
  instruction.slot[1] = decoder.source(1, type);
  instruction.slot[2] = decoder.source(2, Type::u32);
  instruction.slot[3] = decoder.source(3, Type::u32);
  switch (type) {
    case Type::u32: instruction.execute = ternary<u32, u32, u32, u32, extract_field<u32>>; break;
    case Type::s32:
      instruction.execute =
          ternary<std::int32_t, std::int32_t, u32, u32, extract_field<std::int32_t>>;
      break;
    case Type::u64: instruction.execute = ternary<u64, u64, u32, u32, extract_field<u64>>; break;
    case Type::s64:
      instruction.execute =
          ternary<std::int64_t, std::int64_t, u32, u32, extract_field<std::int64_t>>;
      break;
    default: decoder.unknown("the type does not fit");
  }
}

template <class T>
Outcome insert_field(Warp& warp, const Instruction& instruction, LaneMask mask) {
  auto* out = warp.lanes<T>(instruction.slot[0]);
  const auto* a = warp.lanes<T>(instruction.slot[1]);
  const auto* b = warp.lanes<T>(instruction.slot[2]);
  const auto* c = warp.lanes<u32>(instruction.slot[3]);
  const auto* d = warp.lanes<u32>(instruction.slot[4]);
  constexpr u32 width = 8 * sizeof(T);
  for_each_lane(mask, [&](int lane) {
    const u32 position = c[lane] & 0xff, length = std::min(d[lane] & 0xff, width);
    if (position >= width || length == 0) {
      out[lane] = b[lane];
      return;
    }
    const T field = static_cast<T>((length == width ? ~T{0} : (T{1} << length) - 1) << position);
    out[lane] = (b[lane] & ~field) | (static_cast<T>(a[lane] << position) & field);
  });
  return Outcome::Next;
}

void decode_insert(Decoder& decoder) {
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  instruction.slot[0] = decoder.destination(0, type);
  instruction.slot[1] = decoder.source(1, type);
  instruction.slot[2] = decoder.source(2, type);
  instruction.slot[3] = decoder.source(3, Type::u32);
  instruction.slot[4] = decoder.source(4, Type::u32);
  instruction.execute = type_bytes(type) == 4 ? insert_field<u32> : insert_field<u64>;
}

// The place of the leading bit that differs from the sign, -1 where there is none.
template <class T>
u32 leading_bit(T a) {
  using Bits = std::make_unsigned_t<T>;
  auto bits = static_cast<Bits>(a);
  if (a < 0) bits = static_cast<Bits>(~bits);
  return bits == 0 ? 0xffff'ffffU
                   : static_cast<u32>(8 * sizeof(T) - 1 - static_cast<u32>(std::countl_zero(bits)));
}
template <class T>
u32 leading_bit_shift(T a) {
  const u32 place = leading_bit(a);
  return place == 0xffff'ffffU ? place : static_cast<u32>(8 * sizeof(T)) - 1 - place;
}

template <class T>
Execute find_leading(bool shift) {
  if (shift) return unary<u32, T, leading_bit_shift<T>>;
  return unary<u32, T, leading_bit<T>>;
}

void decode_find_leading(Decoder& decoder) {
  const bool shift = decoder.take("shiftamt");
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  instruction.slot[0] = decoder.destination(0, Type::u32);
  instruction.slot[1] = decoder.source(1, type);
  switch (type) {
    case Type::u32: instruction.execute = find_leading<u32>(shift); break;
    case Type::s32: instruction.execute = find_leading<std::int32_t>(shift); break;
    case Type::u64: instruction.execute = find_leading<u64>(shift); break;
    case Type::s64: instruction.execute = find_leading<std::int64_t>(shift); break;
    default: decoder.unknown("the type does not fit");
  }
}

template <class T>
T reversed(T a) {
  T result = 0;
  for (std::size_t i = 0; i < 8 * sizeof(T); ++i, a >>= 1)
    result = static_cast<T>(result << 1 | (a & 1));
  return result;
}

// popc, clz, brev: one source of 32 or 64 bits.
template <auto f32, auto f64, bool keeps_width>
void decode_count(Decoder& decoder) {
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  instruction.slot[0] = decoder.destination(0, keeps_width ? type : Type::u32);
  instruction.slot[1] = decoder.source(1, type);
  if (type_bytes(type) == 4) instruction.execute = unary<u32, u32, f32>;
  else instruction.execute = unary<std::conditional_t<keeps_width, u64, u32>, u64, f64>;
}

}  // namespace

void add_bit_opcodes(OpcodeTable& table) {
  table["and"] = decode_logic<[](auto a, auto b) { return a & b; }>;
  table["or"] = decode_logic<[](auto a, auto b) { return a | b; }>;
  table["xor"] = decode_logic<[](auto a, auto b) { return a ^ b; }>;
  table["not"] = decode_not;
  table["shl"] = decode_shift_left;
  table["shr"] = decode_shift_right;
  table["shf"] = decode_funnel_shift;
  table["lop3"] = [](Decoder& decoder) {
    decoder.demand("b32");
    decoder.instruction.slot[0] = decoder.destination(0, Type::b32);
    for (std::size_t i = 1; i < 4; ++i) decoder.instruction.slot[i] = decoder.source(i, Type::b32);
    decoder.instruction.immediate = decoder.constant(4);
    decoder.instruction.execute = execute_lop3;
  };
  table["prmt"] = [](Decoder& decoder) {
    decoder.demand("b32");
    decoder.instruction.slot[0] = decoder.destination(0, Type::b32);
    for (std::size_t i = 1; i < 4; ++i) decoder.instruction.slot[i] = decoder.source(i, Type::b32);
    decoder.instruction.execute = ternary<u32, u32, u32, u32, permute>;
  };
  table["bfe"] = decode_extract;
  table["bfi"] = decode_insert;
  table["bfind"] = decode_find_leading;
  table["popc"] = decode_count<[](u32 a) { return std::popcount(a); },
                               [](u64 a) { return std::popcount(a); }, false>;
  table["clz"] = decode_count<[](u32 a) { return std::countl_zero(a); },
                              [](u64 a) { return std::countl_zero(a); }, false>;
  table["brev"] = decode_count<reversed<u32>, reversed<u64>, true>;
}

}  // namespace anydim::ptx
