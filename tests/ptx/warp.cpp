// What a warp's lanes have seen of others, and how they part, meet, wait and end.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "tests/ptx/execution.h"

namespace anydim::ptx {
namespace {

template <class Visit>
void for_lanes(LaneMask mask, Visit&& visit) {
  for (; mask != 0; mask &= mask - 1) visit(std::countr_zero(mask));
}

// The set with the clocks of `mask`'s lanes raised; copies once.
SharedClocks with_lanes(const SharedClocks& clocks, const Warp& warp, LaneMask mask) {
  auto result = clocks ? std::make_shared<ClockSet>(*clocks) : std::make_shared<ClockSet>();
  const auto raise = [&](std::uint32_t component, std::uint32_t clock) {
    if (result->size() <= component) result->resize(component + 1);
    (*result)[component] = std::max((*result)[component], clock);
  };
  for_lanes(mask, [&](int lane) {
    const auto index = static_cast<std::uint32_t>(lane);
    raise(warp.actor.base + index, warp.clock);
    for (const OwnGroups& groups : warp.own_groups)
      if (groups.actor.number != 0) raise(groups.actor.base + index, groups.done[index]);
  });
  return result;
}

}  // namespace

Agent Warp::agent(int lane, bool strong) const {
  Agent result;
  const auto index = static_cast<std::uint32_t>(lane);
  result.author = {clock,
                   actor.base + index,
                   actor.number,
                   static_cast<std::uint8_t>(lane),
                   strong,
                   Proxy::Generic,
                   fragments[static_cast<std::size_t>(current)].pc};
  result.seen = &seen[index];
  result.issuer = actor.base + index;
  result.issuer_from = birth;
  result.issuer_to = never_own;
  for (std::size_t i = 0; i < own_groups.size(); ++i)
    if (own_groups[i].actor.number != 0)
      result.done[i] = {own_groups[i].actor.base + index, own_groups[i].done[index]};
  result.lane = lane;
  result.before_wait = (behind_grid_wait >> lane & 1) == 0;
  result.block = block.slot;
  result.warp = this->index;
  return result;
}

Knowledge Warp::publish(LaneMask mask) {
  Knowledge all;
  for_lanes(mask, [&](int lane) { all.join(seen[static_cast<std::size_t>(lane)]); });
  all.generic = with_lanes(all.generic, *this, mask);
  // The lanes' own ordinary accesses are visible to asynchronous work only after a proxy fence, so
  // `fenced` stays as it is.
  ++clock;
  return all;
}

void Warp::acquire(LaneMask mask, const Knowledge& knowledge) {
  // Lanes that have seen the same go on sharing one set.
  Knowledge before, after;
  bool is_first = true;
  for_lanes(mask, [&](int lane) {
    Knowledge& own = seen[static_cast<std::size_t>(lane)];
    if (is_first || own.generic != before.generic || own.fenced != before.fenced) {
      before = own;
      after = own;
      after.join(knowledge);
      is_first = false;
    }
    own = after;
  });
}

void Warp::proxy_fence(LaneMask mask) {
  // What any of the lanes has seen or done is fenced now; whether another lane may rely on it is
  // told by what that lane has seen.
  Knowledge all;
  for_lanes(mask, [&](int lane) { all.join(seen[static_cast<std::size_t>(lane)]); });
  const SharedClocks fenced = join(all.fenced, with_lanes(all.generic, *this, mask));
  for_lanes(mask, [&](int lane) { seen[static_cast<std::size_t>(lane)].fenced = fenced; });
  ++clock;
}

std::shared_ptr<AsyncAuthor> Warp::async_author(int lane, const Actor& author, int lane_of_actor,
                                                std::uint32_t author_clock, Proxy proxy) {
  auto result = std::make_shared<AsyncAuthor>();
  const auto index = static_cast<std::uint32_t>(lane);
  result->seen = seen[index];
  result->agent = agent(lane);
  result->agent.author.clock = author_clock;
  result->agent.author.component = author.base + static_cast<std::uint32_t>(lane_of_actor);
  result->agent.author.actor = author.number;
  result->agent.author.lane = static_cast<std::uint8_t>(lane_of_actor);
  result->agent.author.proxy = proxy;
  result->agent.seen = &result->seen;
  result->agent.issuer_to = clock++;
  result->block = &block;
  return result;
}

std::shared_ptr<AsyncAuthor> Warp::async_author_of_lanes(LaneMask mask, const Actor& author,
                                                         int lane_of_actor,
                                                         std::uint32_t author_clock) {
  std::shared_ptr<AsyncAuthor> result =
      async_author(std::countr_zero(mask), author, lane_of_actor, author_clock);
  result->seen.join(publish(mask));
  return result;
}

OwnGroups& Warp::groups(GroupKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  if (own_groups.size() <= index) own_groups.resize(index + 1);
  OwnGroups& result = own_groups[index];
  if (result.actor.number == 0) {
    constexpr std::array<const char*, 4> names{"cp.async", "bulk operand", "bulk result", "wgmma"};
    result.actor = execution.new_actor(
        block, 32,
        fmt::format("{} of block ({}, {}, {}) warp {}", names[index], block.index[0],
                    block.index[1], block.index[2], this->index));
    const std::uint32_t past = execution.actor_clock(result.actor);
    result.open.fill(past + 1);
    result.done.fill(0);
    for (QueueId& queue : result.queue) queue = execution.agenda.new_queue();
  }
  return result;
}

Outcome Warp::block_on(std::string what, bool may_time_out) {
  Fragment& own = fragment();
  own.blocked = true;
  own.blocked_since = execution.events;
  own.may_time_out = may_time_out;
  own.waits_for = std::move(what);
  return Outcome::Blocked;
}

void Warp::demand_meeting(std::int32_t pc) {
  Fragment& own = fragment();
  auto free = std::find_if(meetings.begin(), meetings.end(),
                           [](const Meeting& meeting) { return meeting.expected == 0; });
  if (free == meetings.end()) free = meetings.insert(meetings.end(), Meeting{});
  *free = Meeting{pc, own.mask, 0, own.meeting, own.meeting_pc, own.frames};
  own.meeting = static_cast<std::int32_t>(free - meetings.begin());
  own.meeting_pc = pc;
}

Outcome Warp::branch(const Instruction& instruction, LaneMask taken, std::int32_t target) {
  if (taken == fragment().mask) {
    fragment().pc = target;
    return Outcome::Jumped;
  }
  const Fragment& before = fragment();
  const bool is_owed = before.meeting >= 0 && before.meeting_pc == instruction.reconverge;
  if (instruction.reconverge >= 0 && !is_owed) demand_meeting(instruction.reconverge);
  part(taken);
  Fragment other = fragment();
  fragment().mask &= ~taken;
  ++fragment().pc;
  other.mask = taken;
  other.pc = target;
  fragments.push_back(std::move(other));
  return Outcome::Jumped;
}

void Warp::part(LaneMask some) {
  std::map<std::uint32_t, std::uint32_t> apart;
  for_lanes(some, [&](int lane) {
    std::uint32_t& own = company[static_cast<std::size_t>(lane)];
    const auto [found, is_new] = apart.try_emplace(own, companies + 1);
    if (is_new) ++companies;
    own = found->second;
  });
  const auto pc = static_cast<std::size_t>(fragment().pc);
  parted_line = execution.program.instructions[pc].line;
}

void Warp::bring_together(LaneMask mask) {
  ++companies;
  for_lanes(mask, [&](int lane) { company[static_cast<std::size_t>(lane)] = companies; });
}

void Warp::check_together(LaneMask mask) {
  const auto first = static_cast<std::size_t>(std::countr_zero(mask));
  LaneMask others = 0;
  for_lanes(mask, [&](int lane) {
    if (company[static_cast<std::size_t>(lane)] != company[first]) others |= LaneMask{1} << lane;
  });
  if (others == 0) return;
  report(FindingKind::Divergence, static_cast<int>(first),
         fmt::format("lanes {:#010x} parted from it at line {} and nothing has brought them "
                     "together since, as bar.warp.sync does",
                     others, parted_line));
}

Outcome Warp::exit_lanes(LaneMask mask) {
  live &= ~mask;
  fragment().mask &= ~mask;
  for (std::int32_t i = fragment().meeting; i >= 0;) {
    Meeting& meeting = meetings[static_cast<std::size_t>(i)];
    const std::int32_t outer = meeting.outer;
    meeting.expected &= ~mask;
    if (meeting.expected != 0 && meeting.arrived == meeting.expected) finish_meeting(i);
    i = outer;
  }
  if (fragment().mask != 0) ++fragment().pc;
  execution.notify();
  return Outcome::Jumped;
}

void Warp::finish_meeting(std::int32_t index) {
  Meeting& meeting = meetings[static_cast<std::size_t>(index)];
  Fragment together;
  together.pc = meeting.pc;
  together.mask = meeting.arrived;
  together.meeting = meeting.outer;
  together.meeting_pc = meeting.outer_pc;
  together.frames = std::move(meeting.frames);
  meeting = Meeting{};
  fragments.push_back(std::move(together));
}

void Warp::arrive_at_meeting() {
  Fragment& own = fragment();
  Meeting& meeting = meetings[static_cast<std::size_t>(own.meeting)];
  meeting.arrived |= own.mask;
  own.mask = 0;
  if (meeting.arrived == meeting.expected) finish_meeting(own.meeting);
}

std::string Warp::place(int lane) const {
  return fmt::format("block ({}, {}, {}) warp {} lane {}", block.index[0], block.index[1],
                     block.index[2], index, lane);
}

void Warp::report(FindingKind kind, int lane, const std::string& message) {
  execution.report(kind, agent(std::max(lane, 0)), message);
}
void Warp::stop(FindingKind kind, int lane, const std::string& message) {
  execution.stop(kind, agent(std::max(lane, 0)), message);
}

}  // namespace anydim::ptx
