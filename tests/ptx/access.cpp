// Where addresses lie, and what is checked of every access.
#include <fmt/format.h>

#include "tests/ptx/execution.h"

namespace anydim::ptx {
namespace {

std::string_view kind_name(AccessKind kind) {
  switch (kind) {
    case AccessKind::Read: return "read";
    case AccessKind::Write: return "write";
    case AccessKind::Atomic: return "atomic access";
  }
  return "";
}

}  // namespace

Execution::Place Execution::resolve(Space space, std::uint64_t address, std::size_t bytes,
                                    std::size_t alignment, AccessKind kind, const Agent& agent,
                                    Block& block) {
  const auto fail = [&](std::string_view where, const std::string& why) {
    stop(FindingKind::OutOfBounds, agent,
         fmt::format("{} of {} bytes at {:#x} in {}: {}", kind_name(kind), bytes, address, where,
                     why));
  };
  if (address % alignment != 0)
    stop(
        FindingKind::Misaligned, agent,
        fmt::format("{} at {:#x} is not aligned to {} bytes", kind_name(kind), address, alignment));
  if (space == Space::Generic) {
    if (address >= param_window && address < param_window + shared_window) {
      space = Space::Param, address -= param_window;
    } else if (address >= local_window && address < param_window) {
      space = Space::Local, address -= local_window;
    } else if (address >= shared_window && address < local_window) {
      space = Space::SharedCluster, address -= shared_window;
    } else {
      space = Space::Global;
    }
  }
  switch (space) {
    case Space::Shared:
    case Space::SharedCluster: {
      Block* owner = &block;
      const std::uint64_t rank = address >> shared_rank_shift;
      std::uint64_t offset = address & ((std::uint64_t{1} << shared_rank_shift) - 1);
      if (rank != 0) {
        if (rank > block.cluster->blocks.size())
          fail("shared memory", "no block of the cluster has it");
        owner = block.cluster->blocks[rank - 1];
        if (owner == nullptr)
          fail("shared memory of a block of the cluster", "that block has ended");
        if (space == Space::Shared && owner != &block)
          fail("shared memory", "it is another block's, which .shared::cta cannot name");
      }
      if (offset < shared_start || offset + bytes > owner->shared.size())
        fail("shared memory", fmt::format("the block's lies from {:#x} to {:#x}", shared_start,
                                          owner->shared.size()));
      return {owner->shared.data() + offset, owner->shadow.get(), offset, true};
    }
    case Space::Global:
    case Space::Const: {
      Allocation* allocation = machine.memory.find(address);
      if (allocation == nullptr) fail("global memory", machine.memory.describe_miss(address));
      const std::uint64_t offset = address - allocation->base;
      if (offset + bytes > allocation->bytes.size())
        fail("global memory", fmt::format("the allocation has {} bytes from {:#x} on",
                                          allocation->bytes.size(), allocation->base));
      if (options.check_overlap && space == Space::Global)
        check_overlap(*allocation, offset, bytes, kind, agent);
      if (options.dependent && !allocation->steady && space == Space::Global && agent.before_wait)
        report(FindingKind::TooEarly, agent,
               fmt::format("{} of {} bytes at {:#x} before griddepcontrol.wait", kind_name(kind),
                           bytes, address));
      if (options.check_races && !allocation->shadow && space == Space::Global)
        allocation->shadow = std::make_unique<Shadow>(allocation->bytes.size());
      return {allocation->bytes.data() + offset,
              space == Space::Global ? allocation->shadow.get() : nullptr, offset,
              !allocation->initialised};
    }
    case Space::Param:
    case Space::Local: {
      if (agent.warp < 0) fail("a thread's own memory", "asynchronous work has none");
      Warp& warp = *block.warps[static_cast<std::size_t>(agent.warp)];
      if (space == Space::Param && address < call_param_start) {
        if (kind != AccessKind::Read) fail("the kernel's parameters", "they can only be read");
        if (address + bytes > parameters.size())
          fail("the kernel's parameters", fmt::format("they have {} bytes", parameters.size()));
        return {parameters.data() + address, nullptr, 0, false};
      }
      if (space == Space::Param) address -= call_param_start;
      std::vector<std::byte>& all = space == Space::Param ? warp.call_space : warp.local;
      const std::uint64_t size = space == Space::Param ? program.call_bytes : program.local_bytes;
      if (address + bytes > size)
        fail("a thread's own memory", fmt::format("it has {} bytes", size));
      return {all.data() + static_cast<std::uint64_t>(agent.lane) * size + address, nullptr, 0,
              false};
    }
    case Space::Generic: break;
  }
  return {};
}

void Execution::check_overlap(Allocation& allocation, std::uint64_t offset, std::size_t bytes,
                              AccessKind kind, const Agent& agent) {
  const bool writes = kind != AccessKind::Read;
  if (allocation.touched.empty()) allocation.touched.resize(allocation.bytes.size());
  Touched others = Touched::written_uncovered;
  if (writes) others |= Touched::read_uncovered;
  if (agent.before_wait) others |= Touched::written_ahead;
  if (agent.before_wait && writes) others |= Touched::read_ahead;
  for (std::uint64_t byte = offset; byte < offset + bytes; ++byte) {
    Touched& touched = allocation.touched[byte];
    if ((touched & others) != Touched::nothing) {
      report(FindingKind::TooEarly, agent,
             fmt::format(
                 "{} of {} bytes at {:#x}, which a launch ahead {}, {}", kind_name(kind), bytes,
                 allocation.base + offset,
                 (touched & others & Touched::written) != Touched::nothing ? "writes" : "reads",
                 agent.before_wait ? "before griddepcontrol.wait"
                                   : "and no wait covers that one: the launch between did "
                                     "not wait"));
      others = Touched::nothing;
    }
    touched |= writes ? Touched::written_now : Touched::read_now;
  }
}

std::string Execution::describe(const Author& author) const {
  if (author.actor == 0) return "the host";
  std::string result = actors_[author.actor].name;
  if (actors_[author.actor].actor.lanes > 1) result += fmt::format(" lane {}", author.lane);
  if (author.instruction >= 0) {
    const auto index = static_cast<std::size_t>(author.instruction);
    result +=
        fmt::format(" at line {} ({})", program.instructions[index].line, program.source[index]);
  }
  return result;
}

void Execution::check_access(const Place& place, std::size_t bytes, AccessKind kind,
                             const Agent& agent) {
  if (options.check_uninitialised && kind != AccessKind::Write && place.tracked &&
      !place.shadow->written(place.offset, bytes))
    report(FindingKind::Uninitialised, agent,
           fmt::format("{} of {} bytes that nothing has written, at offset {:#x}", kind_name(kind),
                       bytes, place.offset));
  Conflict conflict;
  if (place.shadow->access(place.offset, bytes, kind, agent, history_, conflict)) return;
  const std::string pair =
      fmt::format("{} of offset {:#x} by {}", conflict.earlier_writes ? "write" : "read",
                  conflict.byte, describe(conflict.earlier));
  if (conflict.only_fence_missing)
    report(
        FindingKind::MissingProxyFence, agent,
        fmt::format("{} by asynchronous work after the {} without a fence.proxy.async between them",
                    kind_name(kind), pair));
  else
    report(FindingKind::Race, agent,
           fmt::format("{} without order after the {}", kind_name(kind), pair));
}

std::byte* Execution::access(AccessKind kind, Space space, std::uint64_t address, std::size_t bytes,
                             std::size_t alignment, const Agent& agent, Block& block) {
  const Place place = resolve(space, address, bytes, alignment, kind, agent, block);
  if (kind != AccessKind::Read) ++effects;
  if (place.shadow != nullptr && options.check_races) check_access(place, bytes, kind, agent);
  return place.data;
}

std::byte* Warp::access(AccessKind kind, Space space, std::uint64_t address, std::size_t bytes,
                        std::size_t alignment, int lane, bool strong) {
  return execution.access(kind, space, address, bytes, alignment, agent(lane, strong), block);
}

}  // namespace anydim::ptx
