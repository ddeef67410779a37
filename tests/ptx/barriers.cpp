// bar and barrier: of the warp, of the block (16 named ones), of the cluster.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"
#include "tests/ptx/warp_operations.h"

namespace anydim::ptx {
namespace {

using u32 = std::uint32_t;

enum class Reduction : std::uint8_t { None, And, Or, Count };

struct BarrierOperand {
  std::int32_t number = -1, threads = -1;  // register offsets; threads -1: the whole block
  bool waits = true;                       // bar.arrive does not
  bool aligned = true;
  Reduction reduction = Reduction::None;
  std::int32_t result = -1, predicate = -1;
  bool negated = false;
};

u32 live_threads(const Block& block) {
  u32 result = 0;
  for (const auto& warp : block.warps) result += static_cast<u32>(std::popcount(warp->live));
  return result;
}

bool is_complete(const Block& block, const NamedBarrier& barrier) {
  if (barrier.arrived == 0) return false;
  return barrier.whole_block ? barrier.arrived >= live_threads(block)
                             : barrier.arrived >= barrier.expected;
}

void complete(Block& block, NamedBarrier& barrier) {
  barrier.released = std::move(barrier.gathered);
  barrier.reduced_and = barrier.all;
  barrier.reduced_count = barrier.count;
  barrier.gathered = {};
  barrier.arrived = barrier.expected = barrier.count = 0;
  barrier.all = true;
  barrier.whole_block = false;
  ++barrier.generation;
  block.execution.notify();
}

void finish(Warp& warp, const BarrierOperand& operand, const NamedBarrier& barrier, LaneMask mask) {
  warp.acquire(mask, barrier.released);
  if (operand.reduction == Reduction::Count) {
    for_each_lane(mask,
                  [&](int lane) { warp.lanes<u32>(operand.result)[lane] = barrier.reduced_count; });
  } else if (operand.reduction != Reduction::None) {
    const bool holds =
        operand.reduction == Reduction::And ? barrier.reduced_and : barrier.reduced_count != 0;
    warp.set_predicate(operand.result, mask, holds ? ~0U : 0U);
  }
}

Outcome execute_barrier(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& operand = instruction.get<BarrierOperand>();
  const int lane = std::countr_zero(mask);
  const u32 number = warp.lanes<u32>(operand.number)[lane];
  if (number >= 16)
    warp.stop(FindingKind::InvalidUse, lane, fmt::format("barrier {}: there are 16", number));
  NamedBarrier& barrier = warp.block.barriers[number];
  if (warp.fragment().ticket != 0) {
    if (barrier.generation == warp.fragment().ticket && is_complete(warp.block, barrier))
      complete(warp.block, barrier);
    if (barrier.generation == warp.fragment().ticket)
      return warp.block_on(warp.fragment().waits_for);
    finish(warp, operand, barrier, mask);
    return Outcome::Next;
  }
  const bool whole_block = operand.threads < 0;
  const u32 threads = whole_block ? 0 : warp.lanes<u32>(operand.threads)[lane];
  if (!whole_block && (threads == 0 || threads % 32 != 0))
    warp.stop(
        FindingKind::InvalidUse, lane,
        fmt::format("barrier {} for {} threads, which is no multiple of 32", number, threads));
  if (barrier.arrived != 0 && (barrier.whole_block != whole_block || barrier.expected != threads))
    warp.stop(FindingKind::InvalidUse, lane,
              fmt::format("barrier {} for {} threads while warps have come to it for {}", number,
                          whole_block ? "all" : std::to_string(threads),
                          barrier.whole_block ? "all" : std::to_string(barrier.expected)));
  barrier.whole_block = whole_block;
  barrier.expected = threads;
  barrier.arrived += operand.aligned && !whole_block ? 32 : static_cast<u32>(std::popcount(mask));
  if (operand.reduction != Reduction::None) {
    const LaneMask holds =
        (warp.predicate(operand.predicate) ^ (operand.negated ? ~0U : 0U)) & mask;
    barrier.all = barrier.all && holds == mask;
    barrier.count += static_cast<u32>(std::popcount(holds));
  }
  if (!whole_block && barrier.arrived > threads)
    warp.stop(
        FindingKind::InvalidUse, lane,
        fmt::format("{} threads come to barrier {} for {}", barrier.arrived, number, threads));
  barrier.gathered.join(warp.publish(mask));
  ++warp.execution.effects;
  const std::uint64_t generation = barrier.generation;
  if (is_complete(warp.block, barrier)) complete(warp.block, barrier);
  if (!operand.waits) return Outcome::Next;
  if (barrier.generation != generation) {
    finish(warp, operand, barrier, mask);
    return Outcome::Next;
  }
  warp.fragment().ticket = generation;
  return warp.block_on(fmt::format("barrier {}, at which {} of {} threads are", number,
                                   barrier.arrived, whole_block ? "all" : std::to_string(threads)));
}

void decode_block_barrier(Decoder& decoder) {
  auto operand = std::make_shared<BarrierOperand>();
  const bool is_bar = decoder.text().opcode == "bar";
  decoder.take("cta");
  const std::string_view kind = decoder.take_any({"sync", "arrive", "red"});
  if (kind.empty()) decoder.unknown("it is no sync, arrive or red");
  operand->aligned = decoder.take("aligned") || is_bar;
  operand->waits = kind != "arrive";
  std::size_t next = 0;
  std::size_t last = decoder.operands();
  if (kind == "red") {
    const std::string_view reduction = decoder.take_any({"popc", "and", "or"});
    operand->reduction = reduction == "popc"  ? Reduction::Count
                         : reduction == "and" ? Reduction::And
                                              : Reduction::Or;
    operand->result = decoder.destination(next++, decoder.take_type());
    operand->predicate = decoder.predicate(decoder.operand(--last), operand->negated);
  }
  operand->number = decoder.source(next++, Type::u32);
  if (next < last) operand->threads = decoder.source(next, Type::u32);
  if (!operand->waits && operand->threads < 0) decoder.unknown("arrive needs a number of threads");
  decoder.instruction.aligned = operand->aligned;
  decoder.instruction.brings_together = operand->aligned && operand->waits;
  decoder.instruction.execute = execute_barrier;
  decoder.instruction.detail = operand;
}

void decode_warp_barrier(Decoder& decoder) {
  decoder.demand("sync");
  Instruction& instruction = decoder.instruction;
  instruction.slot[5] = decoder.source(0, Type::u32);
  instruction.member_slot = 5;
  instruction.needs_members = true;
  instruction.members_meet_anywhere = true;
  instruction.execute = execute_warp_barrier;
}

// The cluster's barrier. Every thread arrives and waits once a phase; threads that have exited
// count as arrived.
struct ClusterPhase {
  // by warp and lane: the phase a lane has arrived in, 0 none
  std::vector<std::array<std::uint64_t, 32>> arrived_in;
};

u32 live_threads(const Cluster& cluster) {
  u32 result = 0;
  for (const Block* block : cluster.blocks)
    if (block != nullptr) result += live_threads(*block);
  return result;
}

void complete_cluster(Warp& warp) {
  Cluster& cluster = *warp.block.cluster;
  if (cluster.arrived == 0 || cluster.arrived < live_threads(cluster)) return;
  cluster.arrived = 0;
  cluster.released = std::move(cluster.gathered);
  cluster.gathered = {};
  ++cluster.generation;
  warp.execution.notify();
}

std::array<std::uint64_t, 32>& cluster_phases(Warp& warp) {
  auto& phases = warp.block.extension<ClusterPhase>().arrived_in;
  phases.resize(warp.block.warps.size());
  return phases[static_cast<std::size_t>(warp.index)];
}

Outcome execute_cluster_arrive(Warp& warp, const Instruction& instruction, LaneMask mask) {
  Cluster& cluster = *warp.block.cluster;
  std::array<std::uint64_t, 32>& phases = cluster_phases(warp);
  for_each_lane(mask, [&](int lane) {
    std::uint64_t& phase = phases[static_cast<std::size_t>(lane)];
    if (phase != 0)
      warp.stop(FindingKind::InvalidUse, lane,
                "it arrives at the cluster's barrier twice without waiting");
    phase = cluster.generation;
  });
  cluster.arrived += static_cast<u32>(std::popcount(mask));
  const bool relaxed = instruction.flags != 0;
  if (!relaxed) cluster.gathered.join(warp.publish(mask));
  ++warp.execution.effects;
  complete_cluster(warp);
  return Outcome::Next;
}

Outcome execute_cluster_wait(Warp& warp, const Instruction&, LaneMask mask) {
  Cluster& cluster = *warp.block.cluster;
  std::array<std::uint64_t, 32>& phases = cluster_phases(warp);
  complete_cluster(warp);
  bool is_over = true;
  for_each_lane(mask, [&](int lane) {
    const std::uint64_t phase = phases[static_cast<std::size_t>(lane)];
    if (phase == 0)
      warp.stop(FindingKind::InvalidUse, lane,
                "it waits at the cluster's barrier without having arrived");
    is_over = is_over && phase < cluster.generation;
  });
  if (!is_over)
    return warp.block_on(fmt::format("the cluster's barrier, at which {} of {} threads are",
                                     cluster.arrived, live_threads(cluster)));
  for_each_lane(mask, [&](int lane) { phases[static_cast<std::size_t>(lane)] = 0; });
  warp.acquire(mask, cluster.released);
  return Outcome::Next;
}

void decode_cluster_barrier(Decoder& decoder) {
  const std::string_view kind = decoder.take_any({"arrive", "wait"});
  if (kind.empty()) decoder.unknown("it is no arrive or wait");
  decoder.instruction.flags = decoder.take("relaxed") ? 1 : 0;
  decoder.take_any({"release", "acquire"});
  decoder.instruction.aligned = decoder.take("aligned");
  decoder.instruction.execute = kind == "arrive" ? execute_cluster_arrive : execute_cluster_wait;
}

}  // namespace

void add_barrier_opcodes(OpcodeTable& table) {
  table["bar"] = [](Decoder& decoder) {
    if (decoder.take("warp")) decode_warp_barrier(decoder);
    else decode_block_barrier(decoder);
  };
  table["barrier"] = [](Decoder& decoder) {
    if (decoder.take("cluster")) decode_cluster_barrier(decoder);
    else decode_block_barrier(decoder);
  };
}

}  // namespace anydim::ptx
