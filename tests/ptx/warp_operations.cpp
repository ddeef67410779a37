// shfl, vote, match, redux, activemask, elect, bar.warp.sync.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"
#include "tests/ptx/warp_operations.h"

namespace anydim::ptx {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// .sync forms carry their member mask in the last operand.
void take_members(Decoder& decoder, std::size_t operand, std::uint8_t slot) {
  decoder.demand("sync");
  decoder.instruction.slot[slot] = decoder.source(operand, Type::u32);
  decoder.instruction.member_slot = slot;
  decoder.instruction.needs_members = true;
}

enum class Shuffle : std::uint8_t { Up, Down, Butterfly, Index };

Outcome execute_shuffle(Warp& warp, const Instruction& instruction, LaneMask mask) {
  std::array<u32, 32> value{};
  const auto* a = warp.lanes<u32>(instruction.slot[2]);
  std::copy_n(a, 32, value.begin());
  auto* out = warp.lanes<u32>(instruction.slot[0]);
  const auto* b = warp.lanes<u32>(instruction.slot[3]);
  const auto* c = warp.lanes<u32>(instruction.slot[4]);
  LaneMask in_range_lanes = 0;
  for_each_lane(mask, [&](int lane) {
    const int clamp = static_cast<int>(c[lane] & 0x1f),
              segment = static_cast<int>(c[lane] >> 8 & 0x1f),
              shift = static_cast<int>(b[lane] & 0x1f);
    const int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
    int from = lane;
    bool in_range = true;
    switch (static_cast<Shuffle>(instruction.flags)) {
      case Shuffle::Up: in_range = (from = lane - shift) >= last; break;
      case Shuffle::Down: in_range = (from = lane + shift) <= last; break;
      case Shuffle::Butterfly: in_range = (from = lane ^ shift) <= last; break;
      case Shuffle::Index: in_range = (from = first | (shift & ~segment)) <= last; break;
    }
    if (!in_range) from = lane;
    if ((mask >> from & 1) == 0)
      warp.report(FindingKind::InvalidUse, lane,
                  fmt::format("it takes the value of lane {}, which is not taking part", from));
    out[lane] = value[static_cast<std::size_t>(from)];
    if (in_range) in_range_lanes |= LaneMask{1} << lane;
  });
  if (instruction.slot[1] >= 0) warp.set_predicate(instruction.slot[1], mask, in_range_lanes);
  return Outcome::Next;
}

void decode_shuffle(Decoder& decoder) {
  Instruction& instruction = decoder.instruction;
  const std::string_view way = decoder.take_any({"up", "down", "bfly", "idx"});
  if (way.empty()) decoder.unknown("it names no way");
  instruction.flags = static_cast<std::uint8_t>(way == "up"     ? Shuffle::Up
                                                : way == "down" ? Shuffle::Down
                                                : way == "bfly" ? Shuffle::Butterfly
                                                                : Shuffle::Index);
  decoder.demand("b32");
  decode_pair_destination(decoder, Type::b32);
  for (std::size_t i = 1; i < 4; ++i) instruction.slot[i + 1] = decoder.source(i, Type::b32);
  take_members(decoder, 4, 5);
  instruction.execute = execute_shuffle;
}

enum class Vote : std::uint8_t { All, Any, Uniform, Ballot };

Outcome execute_vote(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const LaneMask chosen =
      (warp.predicate(instruction.slot[1]) ^ (instruction.immediate != 0 ? ~0U : 0U)) & mask;
  bool result = false;
  switch (static_cast<Vote>(instruction.flags)) {
    case Vote::All: result = chosen == mask; break;
    case Vote::Any: result = chosen != 0; break;
    case Vote::Uniform: result = chosen == mask || chosen == 0; break;
    case Vote::Ballot: {
      auto* out = warp.lanes<u32>(instruction.slot[0]);
      for_each_lane(mask, [&](int lane) { out[lane] = chosen; });
      return Outcome::Next;
    }
  }
  warp.set_predicate(instruction.slot[0], mask, result ? ~0U : 0U);
  return Outcome::Next;
}

void decode_vote(Decoder& decoder) {
  Instruction& instruction = decoder.instruction;
  const std::string_view kind = decoder.take_any({"all", "any", "uni", "ballot"});
  if (kind.empty()) decoder.unknown("it names no kind");
  instruction.flags = static_cast<std::uint8_t>(kind == "all"   ? Vote::All
                                                : kind == "any" ? Vote::Any
                                                : kind == "uni" ? Vote::Uniform
                                                                : Vote::Ballot);
  const Type type = decoder.take_type();
  bool negated = false;
  instruction.slot[0] = decoder.destination(0, type);
  instruction.slot[1] = decoder.predicate(decoder.operand(1), negated);
  instruction.immediate = negated ? 1 : 0;
  take_members(decoder, 2, 5);
  instruction.execute = execute_vote;
}

template <class T>
Outcome execute_match(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto* a = warp.lanes<T>(instruction.slot[2]);
  auto* out = warp.lanes<u32>(instruction.slot[0]);
  std::array<u32, 32> same{};
  for_each_lane(mask, [&](int lane) {
    for_each_lane(mask, [&](int other) {
      if (a[lane] == a[other]) same[static_cast<std::size_t>(lane)] |= LaneMask{1} << other;
    });
  });
  const bool all = instruction.flags != 0;
  const bool is_uniform = same[static_cast<std::size_t>(std::countr_zero(mask))] == mask;
  for_each_lane(mask, [&](int lane) {
    out[lane] = all ? (is_uniform ? mask : 0) : same[static_cast<std::size_t>(lane)];
  });
  if (instruction.slot[1] >= 0)
    warp.set_predicate(instruction.slot[1], mask, is_uniform ? ~0U : 0U);
  return Outcome::Next;
}

void decode_match(Decoder& decoder) {
  Instruction& instruction = decoder.instruction;
  instruction.flags = decoder.take_any({"any", "all"}) == "all" ? 1 : 0;
  const Type type = decoder.take_type();
  decode_pair_destination(decoder, Type::b32);
  instruction.slot[2] = decoder.source(1, type);
  take_members(decoder, 2, 5);
  instruction.execute = type_bytes(type) == 8 ? execute_match<u64> : execute_match<u32>;
}

template <class T, auto f>
Outcome execute_redux(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto* a = warp.lanes<u32>(instruction.slot[1]);
  auto* out = warp.lanes<u32>(instruction.slot[0]);
  const int first = std::countr_zero(mask);
  auto result = static_cast<T>(a[first]);
  for_each_lane(mask & (mask - 1),
                [&](int lane) { result = static_cast<T>(f(result, static_cast<T>(a[lane]))); });
  for_each_lane(mask, [&](int lane) { out[lane] = static_cast<u32>(result); });
  return Outcome::Next;
}

void decode_redux(Decoder& decoder) {
  Instruction& instruction = decoder.instruction;
  const std::string_view name = decoder.take_any({"add", "min", "max", "and", "or", "xor"});
  const Type type = decoder.take_type();
  instruction.slot[0] = decoder.destination(0, type);
  instruction.slot[1] = decoder.source(1, type);
  take_members(decoder, 2, 5);
  const bool sign = type == Type::s32;
  if (type_bytes(type) != 4 || type == Type::f32)
    decoder.unknown("only 32-bit integers are supported");
  if (name == "add") instruction.execute = execute_redux<u32, [](u32 a, u32 b) { return a + b; }>;
  if (name == "and") instruction.execute = execute_redux<u32, [](u32 a, u32 b) { return a & b; }>;
  if (name == "or") instruction.execute = execute_redux<u32, [](u32 a, u32 b) { return a | b; }>;
  if (name == "xor") instruction.execute = execute_redux<u32, [](u32 a, u32 b) { return a ^ b; }>;
  using s32 = std::int32_t;
  if (name == "min")
    instruction.execute = sign ? execute_redux<s32, [](s32 a, s32 b) { return std::min(a, b); }>
                               : execute_redux<u32, [](u32 a, u32 b) { return std::min(a, b); }>;
  if (name == "max")
    instruction.execute = sign ? execute_redux<s32, [](s32 a, s32 b) { return std::max(a, b); }>
                               : execute_redux<u32, [](u32 a, u32 b) { return std::max(a, b); }>;
  if (name.empty()) decoder.unknown("it names no operation");
}

Outcome execute_activemask(Warp& warp, const Instruction& instruction, LaneMask mask) {
  auto* out = warp.lanes<u32>(instruction.slot[0]);
  for_each_lane(mask, [&](int lane) { out[lane] = mask; });
  return Outcome::Next;
}

Outcome execute_elect(Warp& warp, const Instruction& instruction, LaneMask mask) {
  // Which lane is not said, only that it is the same each time: the last one, as code that took it
  // for lane 0 would not notice were it that.
  const int leader = 31 - std::countl_zero(mask);
  if (instruction.slot[0] >= 0)
    for_each_lane(mask, [&](int lane) {
      warp.lanes<u32>(instruction.slot[0])[lane] = static_cast<u32>(leader);
    });
  warp.set_predicate(instruction.slot[1], mask, LaneMask{1} << leader);
  return Outcome::Next;
}

void decode_elect(Decoder& decoder) {
  decode_pair_destination(decoder, Type::b32);
  if (decoder.instruction.slot[1] < 0) decoder.unknown("it lacks the predicate");
  take_members(decoder, 1, 5);
  decoder.instruction.execute = execute_elect;
}

}  // namespace

void decode_pair_destination(Decoder& decoder, Type type) {
  OperandText first = decoder.operand(0);
  decoder.instruction.slot[0] = first.name == "_" ? -1 : decoder.destination(first, type);
  if (first.second.empty() || first.second == "_") return;
  first.kind = OperandText::Kind::Name;
  first.name = first.second;
  decoder.instruction.slot[1] = decoder.destination(first, Type::pred);
}

// The members see what each of them did before.
Outcome execute_warp_barrier(Warp& warp, const Instruction&, LaneMask mask) {
  const Knowledge all = warp.publish(mask);
  warp.acquire(mask, all);
  return Outcome::Next;
}

void add_warp_opcodes(OpcodeTable& table) {
  table["shfl"] = decode_shuffle;
  table["vote"] = decode_vote;
  table["match"] = decode_match;
  table["redux"] = decode_redux;
  table["elect"] = decode_elect;
  table["activemask"] = [](Decoder& decoder) {
    decoder.demand("b32");
    decoder.instruction.slot[0] = decoder.destination(0, Type::b32);
    decoder.instruction.execute = execute_activemask;
  };
}

}  // namespace anydim::ptx
