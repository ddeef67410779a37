// Branches, calls, returns and ends.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

Outcome execute_branch(Warp& warp, const Instruction& instruction, LaneMask mask) {
  return warp.branch(instruction, mask, instruction.slot[0]);
}

Outcome execute_indexed_branch(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& targets = instruction.get<std::vector<std::int32_t>>();
  const auto* index = warp.lanes<std::uint32_t>(instruction.slot[1]);
  const auto target_of = [&](int lane) {
    if (index[lane] >= targets.size())
      warp.stop(FindingKind::InvalidUse, lane,
                fmt::format("index {} into {} branch targets", index[lane], targets.size()));
    return targets[index[lane]];
  };
  for (LaneMask rest = mask; rest != 0;) {
    const std::int32_t target = target_of(std::countr_zero(rest));
    LaneMask together = 0;
    for_each_lane(rest, [&](int lane) {
      together |= static_cast<LaneMask>(target_of(lane) == target ? 1 : 0) << lane;
    });
    rest &= ~together;
    const std::int32_t pc = warp.fragment().pc;
    warp.branch(instruction, together, target);
    if (rest != 0) warp.fragment().pc = pc;  // the others branch from the same place
  }
  return Outcome::Jumped;
}

void copy_parameters(Warp& warp, const std::vector<CallDetail::Copy>& copies, LaneMask mask) {
  const std::uint64_t size = warp.execution.program.call_bytes;
  for_each_lane(mask, [&](int lane) {
    std::byte* space = warp.call_space.data() + static_cast<std::uint64_t>(lane) * size;
    for (const CallDetail::Copy& copy : copies)
      std::memmove(space + copy.to, space + copy.from, copy.bytes);
  });
}

Outcome execute_call(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& call = instruction.get<CallDetail>();
  copy_parameters(warp, call.arguments, mask);
  const std::int32_t behind = warp.fragment().pc + 1;
  // Whoever calls meets behind the call, however the callee returns.
  warp.demand_meeting(behind);
  if (mask != warp.fragment().mask) {
    warp.part(mask);
    Fragment others = warp.fragment();
    others.mask &= ~mask;
    others.pc = behind;
    warp.fragments.push_back(std::move(others));
    warp.fragment().mask = mask;
  }
  Fragment& caller = warp.fragment();
  caller.frames.push_back(behind);
  caller.pc = call.target;
  return Outcome::Jumped;
}

Outcome execute_return(Warp& warp, const Instruction&, LaneMask mask) {
  if (warp.fragment().frames.empty()) return warp.exit_lanes(mask);
  const std::int32_t behind = warp.fragment().frames.back();
  const Instruction& call =
      warp.execution.program.instructions[static_cast<std::size_t>(behind - 1)];
  copy_parameters(warp, call.get<CallDetail>().results, mask);
  if (mask != warp.fragment().mask) {
    warp.part(mask);
    Fragment others = warp.fragment();
    others.mask &= ~mask;
    ++others.pc;
    warp.fragments.push_back(std::move(others));
    warp.fragment().mask = mask;
  }
  Fragment& own = warp.fragment();
  own.frames.pop_back();
  own.pc = behind;
  return Outcome::Jumped;
}

Outcome execute_exit(Warp& warp, const Instruction&, LaneMask mask) {
  return warp.exit_lanes(mask);
}

Outcome execute_trap(Warp& warp, const Instruction&, LaneMask mask) {
  warp.stop(FindingKind::Trap, std::countr_zero(mask), "the kernel traps");
}

Outcome execute_nothing(Warp&, const Instruction&, LaneMask) { return Outcome::Next; }

}  // namespace

void add_control_opcodes(OpcodeTable& table) {
  table["bra"] = [](Decoder& decoder) {
    decoder.take("uni");
    decoder.instruction.control = Control::Branch;
    decoder.instruction.slot[0] = decoder.label(0);
    decoder.instruction.execute = execute_branch;
  };
  table["brx"] = [](Decoder& decoder) {
    decoder.demand("idx");
    decoder.take("uni");
    decoder.instruction.control = Control::IndexedBranch;
    decoder.instruction.slot[1] = decoder.source(0, Type::u32);
    decoder.instruction.detail =
        std::make_shared<std::vector<std::int32_t>>(decoder.branch_targets(1));
    decoder.instruction.execute = execute_indexed_branch;
  };
  table["call"] = [](Decoder& decoder) {
    decoder.take("uni");
    decoder.instruction.detail = decoder.call();
    decoder.instruction.execute = execute_call;
  };
  table["ret"] = [](Decoder& decoder) {
    decoder.take("uni");
    decoder.instruction.control = Control::Return;
    decoder.instruction.execute = execute_return;
  };
  table["exit"] = [](Decoder& decoder) {
    decoder.instruction.control = Control::Exit;
    decoder.instruction.execute = execute_exit;
  };
  for (const char* opcode : {"trap", "brkpt"})
    table[opcode] = [](Decoder& decoder) { decoder.instruction.execute = execute_trap; };
  table["nanosleep"] = [](Decoder& decoder) {
    decoder.demand("u32");
    decoder.source(0, Type::u32);
    decoder.instruction.execute = execute_nothing;
  };
  table["pmevent"] = [](Decoder& decoder) { decoder.instruction.execute = execute_nothing; };
}

}  // namespace anydim::ptx
