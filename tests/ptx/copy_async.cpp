// cp.async of 4, 8 or 16 bytes a thread, and its groups. Forms of cp for bulk copies and barriers
// stand in the opcode table under cp.async.bulk, cp.async.mbarrier and cp.reduce.async.bulk.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/ptx/lanes.h"
#include "tests/ptx/memory_operations.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

struct CopyOperand {
  AddressOperand to, from;
  std::size_t bytes = 16;
  std::int32_t source_bytes = -1;  // register offset; the rest of the bytes becomes zero
  std::int32_t ignore = -1;        // predicate: zeros instead of the source
  bool ignore_negated = false;
};

// The copies of one instruction that belong to one group.
struct WarpCopy {
  struct Lane {
    Agent agent;
    std::uint64_t to = 0, from = 0;
    std::size_t source_bytes = 0;
    std::array<std::byte, 16> value{};
  };
  Block* block = nullptr;
  std::size_t bytes = 16;
  std::vector<Knowledge> seen;  // never reallocated: agents point into it
  std::vector<Lane> lanes;
};

void read_operands(WarpCopy& copy) {
  for (WarpCopy::Lane& lane : copy.lanes) {
    if (lane.source_bytes == 0) continue;
    const std::byte* data = copy.block->execution.access(
        AccessKind::Read, Space::Global, lane.from, lane.source_bytes, 1, lane.agent, *copy.block);
    std::memcpy(lane.value.data(), data, lane.source_bytes);
  }
}

void write_results(WarpCopy& copy) {
  for (WarpCopy::Lane& lane : copy.lanes) {
    std::byte* data = copy.block->execution.access(AccessKind::Write, Space::Shared, lane.to,
                                                   copy.bytes, copy.bytes, lane.agent, *copy.block);
    std::memcpy(data, lane.value.data(), copy.bytes);
  }
}

Outcome execute_copy(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& operand = instruction.get<CopyOperand>();
  OwnGroups& groups = warp.groups(GroupKind::CopyAsync);
  const LaneMask ignored =
      operand.ignore < 0 ? 0 : warp.predicate(operand.ignore) ^ (operand.ignore_negated ? ~0U : 0U);
  for (LaneMask rest = mask; rest != 0;) {
    const std::uint32_t group = groups.open[static_cast<std::size_t>(std::countr_zero(rest))];
    auto copy = std::make_shared<WarpCopy>();
    copy->block = &warp.block;
    copy->bytes = operand.bytes;
    copy->seen.reserve(32);
    LaneMask left = 0;
    for_each_lane(rest, [&](int lane) {
      const auto index = static_cast<std::size_t>(lane);
      if (groups.open[index] != group) {
        left |= LaneMask{1} << lane;
        return;
      }
      const Knowledge& seen = warp.seen[index];
      if (copy->seen.empty() || copy->seen.back().generic != seen.generic ||
          copy->seen.back().fenced != seen.fenced)
        copy->seen.push_back(seen);
      WarpCopy::Lane& made = copy->lanes.emplace_back();
      made.to = warp.address(operand.to, lane);
      made.from = warp.address(operand.from, lane);
      made.source_bytes = operand.source_bytes < 0
                              ? operand.bytes
                              : warp.lanes<std::uint32_t>(operand.source_bytes)[lane];
      if ((ignored >> lane & 1) != 0) made.source_bytes = 0;
      if (made.source_bytes > operand.bytes)
        warp.stop(FindingKind::InvalidUse, lane,
                  fmt::format("it copies {} bytes of {}", made.source_bytes, operand.bytes));
      if (made.source_bytes != 0 && made.from % operand.bytes != 0)
        warp.stop(FindingKind::Misaligned, lane,
                  fmt::format("source {:#x} is not aligned to {} bytes", made.from, operand.bytes));
      made.agent = warp.agent(lane);
      made.agent.seen = &copy->seen.back();
      made.agent.issuer_to = warp.clock;
      made.agent.author.clock = group;
      made.agent.author.actor = groups.actor.number;
      made.agent.author.component = groups.actor.base + static_cast<std::uint32_t>(lane);
    });
    PendingOperation operation;
    operation.queue = groups.queue[0];
    operation.number = group;
    operation.block = &warp.block;
    operation.read = [copy] { read_operands(*copy); };
    operation.write = [copy] { write_results(*copy); };
    warp.execution.agenda.issue(std::move(operation));
    rest = left;
  }
  ++warp.clock;  // what the lanes do from now on comes after the issue
  ++warp.execution.effects;
  return Outcome::Next;
}

Outcome execute_commit(Warp& warp, const Instruction&, LaneMask mask) {
  OwnGroups& groups = warp.groups(GroupKind::CopyAsync);
  for_each_lane(mask, [&](int lane) { ++groups.open[static_cast<std::size_t>(lane)]; });
  return Outcome::Next;
}

// wait_group n: all but the lane's last n groups; wait_all: everything, committed or not.
Outcome execute_wait(Warp& warp, const Instruction& instruction, LaneMask mask) {
  OwnGroups& groups = warp.groups(GroupKind::CopyAsync);
  std::uint32_t last = 0;
  for_each_lane(mask, [&](int lane) {
    const auto index = static_cast<std::size_t>(lane);
    if (instruction.flags != 0) ++groups.open[index];
    const std::uint32_t closed = groups.open[index] - 1;
    const auto pending = static_cast<std::uint32_t>(instruction.immediate);
    groups.done[index] = std::max(groups.done[index], closed > pending ? closed - pending : 0);
    last = std::max(last, groups.done[index]);
  });
  warp.execution.agenda.force(groups.queue[0], last);
  return Outcome::Next;
}

void decode_copy(Decoder& decoder) {
  auto operand = std::make_shared<CopyOperand>();
  const std::string_view cache = decoder.take_any({"ca", "cg"});
  decoder.take_any({"shared", "shared::cta"});
  decoder.demand("global");
  skip_cache_modifiers(decoder);
  if (cache.empty()) decoder.unknown("it lacks .ca or .cg");
  operand->to = decoder.address(0, Space::Shared);
  operand->from = decoder.address(1, Space::Global);
  operand->bytes = static_cast<std::size_t>(decoder.constant(2));
  if (operand->bytes != 16 && (cache == "cg" || (operand->bytes != 4 && operand->bytes != 8)))
    decoder.unknown("it cannot copy so many bytes");
  if (decoder.operands() > 3) {
    const OperandText& last = decoder.operand(3);
    if (decoder.is_predicate(last))
      operand->ignore = decoder.predicate(last, operand->ignore_negated);
    else if (!decoder.is_wide(last)) operand->source_bytes = decoder.source(last, Type::u32);
  }
  decoder.instruction.execute = execute_copy;
  decoder.instruction.detail = operand;
}

void decode_cp(Decoder& decoder) {
  const std::vector<std::string>& modifiers = decoder.text().modifiers;
  const auto names = [&](std::size_t index, std::string_view name) {
    return index < modifiers.size() && modifiers[index] == name;
  };
  const char* other = names(0, "reduce")     ? "cp.reduce.async.bulk"
                      : names(1, "bulk")     ? "cp.async.bulk"
                      : names(1, "mbarrier") ? "cp.async.mbarrier"
                                             : nullptr;
  if (other != nullptr) {
    const auto found = opcode_table().find(other);
    if (found == opcode_table().end()) decoder.unknown("no handler for it is registered");
    found->second(decoder);
    return;
  }
  decoder.demand("async");
  if (decoder.take("commit_group")) {
    decoder.instruction.execute = execute_commit;
  } else if (decoder.take("wait_group")) {
    decoder.instruction.immediate = decoder.constant(0);
    decoder.instruction.execute = execute_wait;
  } else if (decoder.take("wait_all")) {
    decoder.instruction.flags = 1;
    decoder.instruction.execute = execute_wait;
  } else {
    decode_copy(decoder);
  }
}

}  // namespace

void add_copy_async_opcodes(OpcodeTable& table) { table["cp"] = decode_cp; }

}  // namespace anydim::ptx
