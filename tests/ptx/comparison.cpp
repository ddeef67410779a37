// setp, set, selp, slct.
#include <cmath>

#include "tests/ptx/half.h"
#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// How a comparison combines with a predicate, kept in `flags`.
enum Combine : std::uint8_t {
  alone = 0,
  with_and = 1,
  with_or = 2,
  with_xor = 3,
  negated_operand = 4
};

LaneMask combine(Warp& warp, const Instruction& instruction, LaneMask result) {
  const std::uint8_t kind = instruction.flags & 3;
  if (kind == alone) return result;
  const LaneMask other =
      warp.predicate(instruction.slot[4]) ^ ((instruction.flags & negated_operand) != 0 ? ~0U : 0U);
  return kind == with_and ? result & other : kind == with_or ? result | other : result ^ other;
}

template <class T>
T widened(Stored<T> stored) {
  return get_lane<T>(stored);
}

template <class A, auto load, auto compare>
LaneMask compare_lanes(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto* a = warp.lanes<Stored<A>>(instruction.slot[2]);
  const auto* b = warp.lanes<Stored<A>>(instruction.slot[3]);
  LaneMask result = 0;
  for_each_lane(mask, [&](int lane) {
    result |= static_cast<LaneMask>(compare(load(a[lane]), load(b[lane])) ? 1 : 0) << lane;
  });
  return result;
}

template <class A, auto load, auto compare>
Outcome execute_setp(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const LaneMask result = compare_lanes<A, load, compare>(warp, instruction, mask);
  const LaneMask first = combine(warp, instruction, result),
                 second = combine(warp, instruction, ~result);
  warp.set_predicate(instruction.slot[0], mask, first);
  if (instruction.slot[1] >= 0) warp.set_predicate(instruction.slot[1], mask, second);
  return Outcome::Next;
}

// set: the result is all ones or 1.0.
template <class A, auto load, auto compare>
Outcome execute_set(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const LaneMask result =
      combine(warp, instruction, compare_lanes<A, load, compare>(warp, instruction, mask));
  auto* out = warp.lanes<u32>(instruction.slot[0]);
  for_each_lane(mask, [&](int lane) {
    out[lane] = (result >> lane & 1) != 0 ? static_cast<u32>(instruction.immediate) : 0;
  });
  return Outcome::Next;
}

template <class A, auto load, auto compare>
Execute form(bool makes_predicate) {
  if (makes_predicate) return execute_setp<A, load, compare>;
  return execute_set<A, load, compare>;
}

template <class A, auto load>
Execute by_name(std::string_view name, bool makes_predicate) {
  if (name == "eq") return form<A, load, [](auto a, auto b) { return a == b; }>(makes_predicate);
  if (name == "lt" || name == "lo")
    return form<A, load, [](auto a, auto b) { return a < b; }>(makes_predicate);
  if (name == "le" || name == "ls")
    return form<A, load, [](auto a, auto b) { return a <= b; }>(makes_predicate);
  if (name == "gt" || name == "hi")
    return form<A, load, [](auto a, auto b) { return a > b; }>(makes_predicate);
  if (name == "ge" || name == "hs")
    return form<A, load, [](auto a, auto b) { return a >= b; }>(makes_predicate);
  if (name == "ne") {
    // A NaN is not unequal in the ordered comparison.
    return form<A, load, [](auto a, auto b) { return a < b || a > b; }>(makes_predicate);
  }
  if constexpr (std::is_floating_point_v<decltype(load(Stored<A>{}))>) {
    if (name == "equ")
      return form<A, load, [](auto a, auto b) { return !(a < b || a > b); }>(makes_predicate);
    if (name == "neu") return form<A, load, [](auto a, auto b) { return a != b; }>(makes_predicate);
    if (name == "ltu")
      return form<A, load, [](auto a, auto b) { return !(a >= b); }>(makes_predicate);
    if (name == "leu")
      return form<A, load, [](auto a, auto b) { return !(a > b); }>(makes_predicate);
    if (name == "gtu")
      return form<A, load, [](auto a, auto b) { return !(a <= b); }>(makes_predicate);
    if (name == "geu")
      return form<A, load, [](auto a, auto b) { return !(a < b); }>(makes_predicate);
    if (name == "num")
      return form<A, load, [](auto a, auto b) { return a == a && b == b; }>(makes_predicate);
    if (name == "nan")
      return form<A, load, [](auto a, auto b) { return a != a || b != b; }>(makes_predicate);
  }
  return nullptr;
}

float flushed_single(u32 bits) {
  const float value = get_lane<float>(bits);
  return std::fabs(value) < 0x1p-126F ? 0.0F : value;
}

Execute comparison(Decoder& decoder, Type type, std::string_view name, bool makes_predicate) {
  Execute result = nullptr;
  const bool ftz = decoder.take("ftz");
  switch (type) {
    case Type::b16:
    case Type::u16:
      result = by_name<std::uint16_t, widened<std::uint16_t>>(name, makes_predicate);
      break;
    case Type::s16:
      result = by_name<std::int16_t, widened<std::int16_t>>(name, makes_predicate);
      break;
    case Type::b32:
    case Type::u32: result = by_name<u32, widened<u32>>(name, makes_predicate); break;
    case Type::s32:
      result = by_name<std::int32_t, widened<std::int32_t>>(name, makes_predicate);
      break;
    case Type::b64:
    case Type::u64: result = by_name<u64, widened<u64>>(name, makes_predicate); break;
    case Type::s64:
      result = by_name<std::int64_t, widened<std::int64_t>>(name, makes_predicate);
      break;
    case Type::f32:
      result = ftz ? by_name<float, flushed_single>(name, makes_predicate)
                   : by_name<float, widened<float>>(name, makes_predicate);
      break;
    case Type::f64: result = by_name<double, widened<double>>(name, makes_predicate); break;
    case Type::f16:
      result = by_name<std::uint16_t, [](u32 bits) {
        return HalfFormat::widen(static_cast<std::uint16_t>(bits));
      }>(name, makes_predicate);
      break;
    case Type::bf16:
      result = by_name<std::uint16_t, [](u32 bits) {
        return BfloatFormat::widen(static_cast<std::uint16_t>(bits));
      }>(name, makes_predicate);
      break;
    default: break;
  }
  if (result == nullptr) decoder.unknown("the comparison does not go with the type");
  return result;
}

std::string_view take_comparison(Decoder& decoder) {
  const std::string_view name =
      decoder.take_any({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu",
                        "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (name.empty()) decoder.unknown("it names no comparison");
  return name;
}

void decode_combination(Decoder& decoder, std::size_t operand) {
  const std::string_view name = decoder.take_any({"and", "or", "xor"});
  if (name.empty()) return;
  bool negated = false;
  decoder.instruction.slot[4] = decoder.predicate(decoder.operand(operand), negated);
  const std::uint8_t kind = name == "and" ? with_and : name == "or" ? with_or : with_xor;
  decoder.instruction.flags = static_cast<std::uint8_t>(kind | (negated ? negated_operand : 0));
}

void decode_setp(Decoder& decoder) {
  const std::string_view name = take_comparison(decoder);
  decode_combination(decoder, 3);
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  OperandText first = decoder.operand(0);
  instruction.slot[0] = decoder.destination(first, Type::pred);
  if (!first.second.empty() && first.second != "_") {
    first.name = first.second;
    instruction.slot[1] = decoder.destination(first, Type::pred);
  }
  instruction.slot[2] = decoder.source(1, type);
  instruction.slot[3] = decoder.source(2, type);
  instruction.execute = comparison(decoder, type, name, true);
}

void decode_set(Decoder& decoder) {
  const std::string_view name = take_comparison(decoder);
  decode_combination(decoder, 3);
  const Type result = decoder.take_type();
  const Type type = decoder.take_type();
  if (type_bytes(result) != 4 || result == Type::f16x2 || result == Type::bf16x2)
    decoder.unknown("the result is no u32, s32 or f32");
  Instruction& instruction = decoder.instruction;
  instruction.immediate = result == Type::f32 ? 0x3f80'0000 : 0xffff'ffff;
  instruction.slot[0] = decoder.destination(0, result);
  instruction.slot[2] = decoder.source(1, type);
  instruction.slot[3] = decoder.source(2, type);
  instruction.execute = comparison(decoder, type, name, false);
}

template <class T>
Outcome execute_selp(Warp& warp, const Instruction& instruction, LaneMask mask) {
  auto* out = warp.lanes<T>(instruction.slot[0]);
  const auto* a = warp.lanes<T>(instruction.slot[1]);
  const auto* b = warp.lanes<T>(instruction.slot[2]);
  const LaneMask chosen = warp.predicate(instruction.slot[3]) ^ (instruction.flags != 0 ? ~0U : 0U);
  for_each_lane(mask, [&](int lane) { out[lane] = (chosen >> lane & 1) != 0 ? a[lane] : b[lane]; });
  return Outcome::Next;
}

void decode_selp(Decoder& decoder) {
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  bool negated = false;
  instruction.slot[0] = decoder.destination(0, type);
  instruction.slot[1] = decoder.source(1, type);
  instruction.slot[2] = decoder.source(2, type);
  instruction.slot[3] = decoder.predicate(decoder.operand(3), negated);
  instruction.flags = negated ? 1 : 0;
  instruction.execute = type_bytes(type) == 8 ? execute_selp<u64> : execute_selp<u32>;
}

void decode_slct(Decoder& decoder) {
  decoder.take("ftz");
  const Type type = decoder.take_type();
  const Type condition = decoder.take_type();
  if (type_bytes(type) != 4) decoder.unknown("only 32-bit values are supported");
  Instruction& instruction = decoder.instruction;
  instruction.slot[0] = decoder.destination(0, type);
  instruction.slot[1] = decoder.source(1, type);
  instruction.slot[2] = decoder.source(2, type);
  instruction.slot[3] = decoder.source(3, condition);
  if (condition == Type::f32)
    instruction.execute =
        ternary<u32, u32, u32, float, [](u32 a, u32 b, float c) { return c >= 0 ? a : b; }>;
  else
    instruction.execute = ternary<u32, u32, u32, std::int32_t,
                                  [](u32 a, u32 b, std::int32_t c) { return c >= 0 ? a : b; }>;
}

}  // namespace

void add_comparison_opcodes(OpcodeTable& table) {
  table["setp"] = decode_setp;
  table["set"] = decode_set;
  table["selp"] = decode_selp;
  table["slct"] = decode_slct;
}

}  // namespace anydim::ptx
