// mov in all its forms, cvta.
#include "tests/ptx/lanes.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

Outcome execute_move_predicate(Warp& warp, const Instruction& instruction, LaneMask mask) {
  warp.set_predicate(instruction.slot[0], mask,
                     warp.predicate(instruction.slot[1]) ^ (instruction.flags != 0 ? ~0U : 0U));
  return Outcome::Next;
}

// Registers of b128: 16 bytes a lane.
Outcome execute_move_128(Warp& warp, const Instruction& instruction, LaneMask mask) {
  auto* out = warp.lanes<u64>(instruction.slot[0]);
  const auto* a = warp.lanes<u64>(instruction.slot[1]);
  for_each_lane(mask, [&](int lane) {
    out[2 * lane] = a[2 * lane];
    out[2 * lane + 1] = a[2 * lane + 1];
  });
  return Outcome::Next;
}

Outcome execute_clock(Warp& warp, const Instruction& instruction, LaneMask mask) {
  for_each_lane(mask, [&](int lane) {
    const u64 now = warp.execution.nanoseconds();
    if (instruction.flags != 0) warp.lanes<u64>(instruction.slot[0])[lane] = now;
    else warp.lanes<u32>(instruction.slot[0])[lane] = static_cast<u32>(now);
  });
  return Outcome::Next;
}

// Vectors of parts: `flags` parts of `immediate` bits each.
struct Parts {
  std::vector<std::int32_t> offsets;  // low part first; -1: dropped
  int bits = 0;
  bool wide_parts = false, wide = false;
};

Outcome execute_pack(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& parts = instruction.get<Parts>();
  for_each_lane(mask, [&](int lane) {
    u64 value = 0;
    for (std::size_t i = 0; i < parts.offsets.size(); ++i) {
      u64 part = warp.lanes<u32>(parts.offsets[i])[lane];
      if (parts.bits < 32) part &= (u64{1} << parts.bits) - 1;
      value |= part << (static_cast<std::size_t>(parts.bits) * i);
    }
    if (parts.wide) warp.lanes<u64>(instruction.slot[0])[lane] = value;
    else warp.lanes<u32>(instruction.slot[0])[lane] = static_cast<u32>(value);
  });
  return Outcome::Next;
}

Outcome execute_unpack(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& parts = instruction.get<Parts>();
  for_each_lane(mask, [&](int lane) {
    const u64 value = parts.wide ? warp.lanes<u64>(instruction.slot[1])[lane]
                                 : warp.lanes<u32>(instruction.slot[1])[lane];
    for (std::size_t i = 0; i < parts.offsets.size(); ++i) {
      if (parts.offsets[i] < 0) continue;
      u64 part = value >> (static_cast<std::size_t>(parts.bits) * i);
      if (parts.bits < 32) part &= (u64{1} << parts.bits) - 1;
      warp.lanes<u32>(parts.offsets[i])[lane] = static_cast<u32>(part);
    }
  });
  return Outcome::Next;
}

Outcome execute_pack_128(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& parts = instruction.get<Parts>();
  for_each_lane(mask, [&](int lane) {
    for (std::size_t i = 0; i < 2; ++i)
      warp.lanes<u64>(instruction.slot[0])[2 * lane + static_cast<int>(i)] =
          warp.lanes<u64>(parts.offsets[i])[lane];
  });
  return Outcome::Next;
}

Outcome execute_unpack_128(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& parts = instruction.get<Parts>();
  for_each_lane(mask, [&](int lane) {
    for (std::size_t i = 0; i < 2; ++i)
      if (parts.offsets[i] >= 0)
        warp.lanes<u64>(parts.offsets[i])[lane] =
            warp.lanes<u64>(instruction.slot[1])[2 * lane + static_cast<int>(i)];
  });
  return Outcome::Next;
}

Type part_type(int bits) {
  return bits == 8 ? Type::b8 : bits == 16 ? Type::b16 : bits == 32 ? Type::b32 : Type::b64;
}

void decode_vector_move(Decoder& decoder, Type type) {
  auto parts = std::make_shared<Parts>();
  Instruction& instruction = decoder.instruction;
  const bool packs = decoder.operand(1).kind == OperandText::Kind::Vector;
  const std::size_t count = decoder.operand(packs ? 1 : 0).parts.size();
  parts->bits = 8 * type_bytes(type) / static_cast<int>(count);
  parts->wide = type_bytes(type) == 8;
  if (static_cast<int>(count) * parts->bits != 8 * type_bytes(type))
    decoder.unknown("the vector does not fill the register");
  if (packs) {
    instruction.slot[0] = decoder.destination(0, type);
    parts->offsets = decoder.sources(1, part_type(parts->bits));
    instruction.execute = type == Type::b128 ? execute_pack_128 : execute_pack;
  } else {
    parts->offsets = decoder.destinations(0, part_type(parts->bits));
    instruction.slot[1] = decoder.source(1, type);
    instruction.execute = type == Type::b128 ? execute_unpack_128 : execute_unpack;
  }
  instruction.detail = parts;
}

void decode_mov(Decoder& decoder) {
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  if (type == Type::pred) {
    bool negated = false;
    instruction.slot[0] = decoder.destination(0, type);
    instruction.slot[1] = decoder.predicate(decoder.operand(1), negated);
    instruction.flags = negated ? 1 : 0;
    instruction.execute = execute_move_predicate;
    return;
  }
  if (decoder.operand(0).kind == OperandText::Kind::Vector ||
      decoder.operand(1).kind == OperandText::Kind::Vector) {
    decode_vector_move(decoder, type);
    return;
  }
  instruction.slot[0] = decoder.destination(0, type);
  const std::string& source = decoder.operand(1).name;
  if (source == "%clock" || source == "%clock64" || source == "%globaltimer") {
    instruction.flags = type_bytes(type) == 8 ? 1 : 0;
    instruction.execute = execute_clock;
    return;
  }
  instruction.slot[1] = decoder.source(1, type);
  if (type == Type::b128) instruction.execute = execute_move_128;
  else
    instruction.execute = type_bytes(type) == 8 ? unary<u64, u64, [](u64 a) { return a; }>
                                                : unary<u32, u32, [](u32 a) { return a; }>;
}

// Between a space's own addresses and generic ones. Global and const addresses are generic ones
// already.
Outcome execute_cvta(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto shift = static_cast<u64>(instruction.immediate);
  const bool from_wide = (instruction.flags & 1) != 0, to_wide = (instruction.flags & 2) != 0;
  for_each_lane(mask, [&](int lane) {
    const u64 address = from_wide ? warp.lanes<u64>(instruction.slot[1])[lane]
                                  : warp.lanes<u32>(instruction.slot[1])[lane];
    if (to_wide) warp.lanes<u64>(instruction.slot[0])[lane] = address + shift;
    else warp.lanes<u32>(instruction.slot[0])[lane] = static_cast<u32>(address + shift);
  });
  return Outcome::Next;
}

void decode_cvta(Decoder& decoder) {
  const bool to_space = decoder.take("to");
  const Space space = decoder.take_space(Space::Generic);
  const Type type = decoder.take_type();
  Instruction& instruction = decoder.instruction;
  u64 window = 0;
  if (space == Space::Shared || space == Space::SharedCluster) window = shared_window;
  if (space == Space::Local) window = local_window;
  if (space == Space::Param) window = param_window;
  if (space == Space::Generic) decoder.unknown("it names no space");
  instruction.immediate = static_cast<std::int64_t>(to_space ? 0 - window : window);
  bool to_wide = false, from_wide = false;
  instruction.slot[0] = decoder.any_destination(decoder.operand(0), type, to_wide);
  instruction.slot[1] = decoder.any_source(decoder.operand(1), type, from_wide);
  instruction.flags = static_cast<std::uint8_t>((from_wide ? 1 : 0) | (to_wide ? 2 : 0));
  instruction.execute = execute_cvta;
}

Outcome execute_isspacep(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto* address = warp.lanes<u64>(instruction.slot[1]);
  const auto space = static_cast<Space>(instruction.flags);
  LaneMask result = 0;
  for_each_lane(mask, [&](int lane) {
    const u64 a = address[lane];
    bool is = false;
    if (space == Space::Shared || space == Space::SharedCluster)
      is = a >= shared_window && a < local_window;
    else if (space == Space::Local) is = a >= local_window && a < param_window;
    else if (space == Space::Param) is = a >= param_window && a < param_window + shared_window;
    else is = a >= global_window && a < shared_window;
    if (is) result |= LaneMask{1} << lane;
  });
  warp.set_predicate(instruction.slot[0], mask, result);
  return Outcome::Next;
}

}  // namespace

void add_move_opcodes(OpcodeTable& table) {
  table["mov"] = decode_mov;
  table["cvta"] = decode_cvta;
  table["isspacep"] = [](Decoder& decoder) {
    decoder.instruction.flags = static_cast<std::uint8_t>(decoder.take_space(Space::Global));
    decoder.instruction.slot[0] = decoder.destination(0, Type::pred);
    decoder.instruction.slot[1] = decoder.source(1, Type::b64);
    decoder.instruction.execute = execute_isspacep;
  };
}

}  // namespace anydim::ptx
