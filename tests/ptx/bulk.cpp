#include "tests/ptx/bulk.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/tensor.h"
#include "tests/ptx/mbarrier_objects.h"

namespace anydim::ptx {

namespace {

Agent agent_at(const AsyncAuthor& author, std::uint32_t clock) {
  Agent agent = author.agent;
  agent.author.clock = clock;
  agent.seen = &author.seen;
  return agent;
}

void fetch(Execution& execution, const CopyPieces& pieces, Space space, bool from_global,
           const Agent& agent, Block& block, std::vector<std::byte>& data) {
  data.clear();
  for (const BoxPiece& piece : pieces) {
    const std::size_t at = data.size();
    data.resize(at + piece.bytes);
    if (!piece.inside) continue;
    const std::uint64_t address = from_global ? piece.global_address : piece.shared_address;
    std::memcpy(data.data() + at,
                execution.access(AccessKind::Read, space, address, piece.bytes, 1, agent, block),
                piece.bytes);
  }
}

template <class T>
void combine(Reduction reduction, std::byte* target, const std::byte* operand) {
  T left, right;
  std::memcpy(&left, target, sizeof left);
  std::memcpy(&right, operand, sizeof right);
  switch (reduction) {
    case Reduction::Minimum: left = std::min(left, right); break;
    case Reduction::Maximum: left = std::max(left, right); break;
    default: left = static_cast<T>(left + right); break;
  }
  std::memcpy(target, &left, sizeof left);
}

template <float (*widen)(std::uint16_t), std::uint16_t (*narrow)(float)>
void add_halves(std::byte* target, const std::byte* operand) {
  std::uint16_t left = 0, right = 0;
  std::memcpy(&left, target, sizeof left);
  std::memcpy(&right, operand, sizeof right);
  left = narrow(widen(left) + widen(right));
  std::memcpy(target, &left, sizeof left);
}

void combine(Reduction reduction, ir::DType dtype, std::byte* target, const std::byte* operand) {
  switch (dtype) {
    case ir::DType::F32: return combine<float>(reduction, target, operand);
    case ir::DType::F64: return combine<double>(reduction, target, operand);
    case ir::DType::I32: return combine<std::int32_t>(reduction, target, operand);
    case ir::DType::U32: return combine<std::uint32_t>(reduction, target, operand);
    case ir::DType::I64: return combine<std::int64_t>(reduction, target, operand);
    case ir::DType::U64: return combine<std::uint64_t>(reduction, target, operand);
    case ir::DType::F16: return add_halves<ir::half_to_float, ir::float_to_half>(target, operand);
    case ir::DType::BF16:
      return add_halves<ir::bfloat16_to_float, ir::float_to_bfloat16>(target, operand);
    default: internal_error("a dtype that bulk reductions take");
  }
}

void put(const BulkStore& store, const BoxPiece& piece, std::byte* target, const std::byte* data) {
  if (store.reduction == Reduction::None) {
    std::memcpy(target, data, piece.bytes);
    return;
  }
  const std::size_t element = ir::size_of(store.dtype);
  for (std::size_t at = 0; at < piece.bytes; at += element)
    combine(store.reduction, store.dtype, target + at, data + at);
}

// The barrier that counts a copy into `block`; stops the launch where there is none.
MbarrierObject& barrier_of(Execution& execution, Block& block, std::uint32_t barrier,
                           const Agent& agent) {
  std::string wrong;
  MbarrierObject* object = mbarrier_for_copy(block, barrier, wrong);
  if (object == nullptr) execution.stop(FindingKind::InvalidUse, agent, "a bulk copy's " + wrong);
  return *object;
}

}  // namespace

CopyPieces plain_pieces(std::uint64_t global_address, std::uint32_t shared_address,
                        std::uint32_t bytes) {
  CopyPieces pieces;
  for (std::uint32_t at = 0; at < bytes; at += 16) {
    pieces.push_back({.shared_address = shared_address + at,
                      .global_address = global_address + at,
                      .bytes = std::min(16u, bytes - at),
                      .inside = true});
  }
  return pieces;
}

void issue_load(Warp& warp, int lane, BulkLoad load) {
  struct State {
    BulkLoad load;
    std::shared_ptr<AsyncAuthor> author;
    Actor reader;  // the first destination's barrier: the copy has read its source once that has
                   // completed
    std::vector<std::byte> data;
  };
  Execution& execution = warp.execution;
  auto state = std::make_shared<State>();
  for (const std::uint32_t rank : load.ranks) {
    Block* const block = block_of_rank(*load.cluster, rank);
    if (block == nullptr)
      warp.stop(FindingKind::InvalidUse, lane,
                fmt::format("a copy into block {} of the cluster, which has ended", rank));
    std::string wrong;
    const MbarrierObject* object = mbarrier_for_copy(*block, load.barrier, wrong);
    if (object == nullptr) warp.stop(FindingKind::InvalidUse, lane, "a bulk copy's " + wrong);
    if (!initialised_for_copies(*object, warp.seen[static_cast<std::size_t>(lane)], warp, lane)) {
      warp.report(
          FindingKind::MissingProxyFence, lane,
          fmt::format(
              "the mbarrier at {:#x} counts asynchronous copies, but between its initialisation "
              "and here there is no fence.mbarrier_init (or fence.proxy.async) and barrier",
              load.barrier));
    }
    if (state->author == nullptr) {
      state->reader = object->actor;
      state->author =
          warp.async_author(lane, object->actor, 0, execution.actor_clock(object->actor));
    }
  }
  state->load = std::move(load);
  const auto read = [&execution, state] {
    const Agent agent = agent_at(*state->author, execution.actor_clock(state->reader));
    const BulkLoad& copy = state->load;
    if (!copy.source_rank) {
      fetch(execution, copy.pieces, Space::Global, true, agent, *state->author->block, state->data);
      return;
    }
    Block* const source = block_of_rank(*copy.cluster, *copy.source_rank);
    if (source == nullptr)
      execution.stop(FindingKind::InvalidUse, agent,
                     "the block whose shared memory a copy reads has ended");
    fetch(execution, copy.pieces, Space::Shared, true, agent, *source, state->data);
  };
  const auto write = [&execution, state] {
    const BulkLoad& copy = state->load;
    for (const std::uint32_t rank : copy.ranks) {
      Block* const block = block_of_rank(*copy.cluster, rank);
      Agent agent = agent_at(*state->author, 0);
      if (block == nullptr) {
        execution.stop(FindingKind::InvalidUse, agent,
                       fmt::format("block {} of the cluster ended before a bulk copy into its "
                                   "shared memory was complete",
                                   rank));
      }
      MbarrierObject& object = barrier_of(execution, *block, copy.barrier, agent);
      agent.author.actor = object.actor.number;
      agent.author.component = object.actor.base;
      agent.author.clock = execution.actor_clock(object.actor);
      const std::byte* data = state->data.data();
      for (const BoxPiece& piece : copy.pieces) {
        std::byte* target = execution.access(AccessKind::Write, Space::Shared, piece.shared_address,
                                             piece.bytes, 1, agent, *block);
        std::memcpy(target, data, piece.bytes);
        data += piece.bytes;
      }
      if (const std::string wrong = complete_transactions(execution, object, copy.bytes);
          !wrong.empty()) {
        execution.stop(FindingKind::InvalidUse, agent,
                       fmt::format("mbarrier at {:#x}: {}", copy.barrier, wrong));
      }
    }
  };
  execution.agenda.issue({.queue = execution.agenda.new_queue(),
                          .number = 1,
                          .read = read,
                          .write = write,
                          .block = &warp.block,
                          .unfinished = "the block ended before a bulk copy that it issued had "
                                        "arrived: nothing waited for its mbarrier"});
}

void issue_store(Warp& warp, int lane, BulkStore store) {
  struct State {
    BulkStore store;
    std::shared_ptr<AsyncAuthor> reads, writes;
    std::vector<std::byte> data;
    std::uint32_t group = 0;
  };
  Execution& execution = warp.execution;
  warp.groups(GroupKind::BulkWrite);  // may move the others
  const OwnGroups& reads = warp.groups(GroupKind::BulkRead);
  const OwnGroups& writes = warp.groups(GroupKind::BulkWrite);
  const auto slot = static_cast<std::size_t>(lane);
  auto state = std::make_shared<State>();
  state->store = std::move(store);
  state->group = reads.open[slot];
  state->reads = warp.async_author(lane, reads.actor, lane, state->group);
  state->writes = warp.async_author(lane, writes.actor, lane, writes.open[slot]);
  state->writes->agent.author.strong = state->store.reduction != Reduction::None;
  const auto read = [&execution, state] {
    const Agent& agent = state->reads->agent;
    fetch(execution, state->store.pieces, Space::Shared, false, agent, *state->reads->block,
          state->data);
  };
  const auto write = [&execution, state] {
    const Agent& agent = state->writes->agent;
    const AccessKind kind =
        state->store.reduction == Reduction::None ? AccessKind::Write : AccessKind::Atomic;
    const std::byte* data = state->data.data();
    for (const BoxPiece& piece : state->store.pieces) {
      if (piece.inside) {
        put(state->store, piece,
            execution.access(kind, Space::Global, piece.global_address, piece.bytes, 1, agent,
                             *state->writes->block),
            data);
      }
      data += piece.bytes;
    }
  };
  execution.agenda.issue(
      {.queue = reads.queue[slot],
       .number = state->group,
       .read = read,
       .write = write,
       .block = &warp.block,
       .unfinished = "the block ended before a bulk store was known to have read its shared "
                     "memory: cp.async.bulk.wait_group.read is missing"});
}

void commit_bulk_group(Warp& warp, int lane) {
  for (const GroupKind kind : {GroupKind::BulkRead, GroupKind::BulkWrite})
    ++warp.groups(kind).open[static_cast<std::size_t>(lane)];
}

void wait_bulk_groups(Warp& warp, int lane, std::uint32_t newest, bool reads_only) {
  const auto slot = static_cast<std::size_t>(lane);
  OwnGroups& reads = warp.groups(GroupKind::BulkRead);
  const std::uint32_t closed = reads.open[slot] - 1;
  if (closed <= newest) return;
  const std::uint32_t covered = closed - newest;
  warp.execution.agenda.force(reads.queue[slot], covered, reads_only);
  reads.done[slot] = std::max(reads.done[slot], covered);
  if (reads_only) return;
  // Both kinds are counted alike but may have begun at different numbers.
  OwnGroups& writes = warp.groups(GroupKind::BulkWrite);
  writes.done[slot] = std::max(writes.done[slot], writes.open[slot] - 1 - newest);
}

}  // namespace anydim::ptx
