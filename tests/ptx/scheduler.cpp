// Which warp runs, how far, and what happens when none can.
#include <fmt/format.h>

#include <algorithm>

#include "tests/ptx/execution.h"

namespace anydim::ptx {
namespace {

constexpr int turn_instructions = 256;  // of a warp before another one gets its turn
constexpr std::size_t maximum_waits_told = 40;
constexpr int maximum_releases = 1000;  // of lanes from meetings while nothing else happens

void mark_line(std::vector<bool>& lines, std::int32_t line) {
  const auto index = static_cast<std::size_t>(line);
  if (lines.size() <= index) lines.resize(index + 1);
  lines[index] = true;
}

}  // namespace

bool Execution::run_warp(Warp& warp) {
  if (warp.live == 0 || !pick_fragment(warp)) return false;
  const int budget = options.timing == Timing::Random
                         ? 1 + static_cast<int>(random() % turn_instructions)
                         : turn_instructions;
  run_fragment(warp, budget);
  std::erase_if(warp.fragments, [](const Fragment& fragment) { return fragment.mask == 0; });
  return true;
}

bool Execution::pick_fragment(Warp& warp) {
  const auto count = static_cast<std::int32_t>(warp.fragments.size());
  for (std::int32_t i = 1; i <= count; ++i) {
    const std::int32_t candidate = (warp.current + i) % count;
    Fragment& fragment = warp.fragments[static_cast<std::size_t>(candidate)];
    if (fragment.mask == 0 ||
        (fragment.blocked && fragment.blocked_since == events && !fragment.timed_out))
      continue;
    fragment.blocked = false;
    warp.current = candidate;
    return true;
  }
  return false;
}

void Execution::run_fragment(Warp& warp, int budget) {
  const std::uint64_t limit = options.instruction_limit;
  while (budget-- > 0) {
    Fragment& fragment = warp.fragment();
    if (fragment.pc == fragment.meeting_pc && fragment.meeting >= 0) {
      warp.arrive_at_meeting();
      return;
    }
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(fragment.pc)];
    LaneMask mask = fragment.mask;
    if (instruction.guard >= 0) {
      const LaneMask guard = warp.predicate(instruction.guard);
      mask &= instruction.guard_negated ? ~guard : guard;
    }
    if (++instructions > limit)
      warp.stop(
          FindingKind::Limit, -1,
          fmt::format("the launch exceeds {} warp instructions\n{}", limit, where_warps_wait()));
    if (mask == 0) {
      ++fragment.pc;
      continue;
    }
    if (options.executed_lines != nullptr) mark_line(*options.executed_lines, instruction.line);
    if (instruction.aligned && mask != warp.live && !stuck_.empty() && effects == timeout_effects_)
      warp.stop(FindingKind::Deadlock, -1, "no warp can go on\n" + stuck_);
    if (instruction.aligned && mask != warp.live)
      warp.stop(FindingKind::Divergence, std::countr_zero(mask),
                fmt::format("lanes {:#010x} are here without the warp's others, {:#010x}\n{}", mask,
                            warp.live & ~mask, where_warps_wait()));
    if (instruction.brings_together) warp.bring_together(mask);
    else if (instruction.aligned) warp.check_together(mask);
    if (instruction.needs_members && !meet_members(warp, instruction, mask)) return;
    if (!warp.registers_in_flight.empty() && !instruction.may_touch_in_flight)
      check_in_flight(warp, fragment.pc);
    const Outcome outcome =
        instruction.needs_members ? Outcome::Jumped : instruction.execute(warp, instruction, mask);
    if (outcome == Outcome::Next) {
      Fragment& after = warp.fragment();
      ++after.pc;
      after.ticket = 0;
      after.timed_out = false;
    } else if (outcome == Outcome::Blocked) {
      return;
    } else if (warp.fragment().mask == 0) {
      return;
    }
    agenda.stir();
  }
}

// A .sync instruction with a member mask: runs once all live members are there, for all of them at
// once.
bool Execution::meet_members(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const int first = std::countr_zero(mask);
  const LaneMask members =
      warp.lanes<std::uint32_t>(instruction.slot[instruction.member_slot])[first];
  if ((mask & ~members) != 0)
    warp.stop(FindingKind::InvalidUse, first,
              fmt::format("lanes {:#010x} run this without being among its members {:#010x}", mask,
                          members));
  const std::int32_t pc = warp.fragment().pc;
  const bool any_place = instruction.members_meet_anywhere;
  LaneMask present = 0;
  std::vector<Fragment*> here;
  for (Fragment& other : warp.fragments) {
    const bool is_self = &other == &warp.fragment();
    const Instruction& theirs = program.instructions[static_cast<std::size_t>(other.pc)];
    if (!is_self && (!other.blocked || other.ticket == 0)) continue;
    if (other.pc != pc && !(any_place && theirs.execute == instruction.execute)) continue;
    if (!is_self && other.ticket != members) continue;
    here.push_back(&other);
    present |= is_self ? mask : other.mask;
  }
  if ((members & warp.live & ~present) != 0) {
    warp.fragment().ticket = members;
    warp.block_on(fmt::format("lanes {:#010x} to join", members & warp.live & ~present));
    return false;
  }
  const Outcome outcome = instruction.execute(warp, instruction, present);
  warp.bring_together(present);
  for (Fragment* other : here) {
    if (outcome == Outcome::Next) ++other->pc;
    other->ticket = 0;
    other->blocked = false;
  }
  return true;
}

void Execution::check_in_flight(Warp& warp, std::int32_t pc) {
  for (const std::int32_t offset : program.touched[static_cast<std::size_t>(pc)]) {
    const auto found = warp.registers_in_flight.find(offset);
    if (found != warp.registers_in_flight.end())
      warp.report(FindingKind::RegisterInFlight, -1,
                  "a register is used while " + found->second + " is under way");
  }
}

// Whether warps only ask again and again for something that has not happened: for a while, if
// asynchronous work is left to do, or for so long that nothing will happen any more.
bool Execution::only_spins() {
  if (effects != last_effects_) {
    last_effects_ = effects;
    last_effect_instruction_ = instructions;
    last_effect_polls_ = polls;
    return false;
  }
  const std::uint64_t ran = instructions - last_effect_instruction_,
                      asked = polls - last_effect_polls_;
  return agenda.empty() ? ran > options.idle_limit && asked > 1000 : ran > 2000 && asked > 20;
}

void Execution::unstick() {
  if (agenda.advance()) {
    notify();
    return;
  }
  if (effects != timeout_effects_) {
    timeout_effects_ = effects;
    timeouts_ = releases_ = 0;
    stuck_.clear();
  }
  if (timeouts_ < options.wait_timeouts) {
    ++timeouts_;
    waited_nanoseconds_ += options.wait_nanoseconds;
    if (time_out_waits()) return;
  }
  if (stuck_.empty()) stuck_ = where_warps_wait();
  if (releases_++ < maximum_releases && release_meeting()) return;
  stop(FindingKind::Deadlock, Agent{}, "no warp can go on\n" + stuck_);
}

// Lanes that wait for others at a meeting place go on alone: the others may be waiting for them.
bool Execution::release_meeting() {
  for (const std::unique_ptr<Block>& block : blocks) {
    if (!block) continue;
    for (const std::unique_ptr<Warp>& warp : block->warps) {
      for (std::size_t i = 0; i < warp->meetings.size(); ++i) {
        Meeting& meeting = warp->meetings[i];
        if (meeting.arrived == 0) continue;
        Fragment early;
        early.pc = meeting.pc;
        early.mask = meeting.arrived;
        early.meeting = meeting.outer;
        early.meeting_pc = meeting.outer_pc;
        early.frames = meeting.frames;
        meeting.expected &= ~meeting.arrived;
        meeting.arrived = 0;
        warp->fragments.push_back(std::move(early));
        return true;
      }
    }
  }
  return false;
}

bool Execution::gives_up(Fragment& fragment) {
  const bool gives_up = options.timing == Timing::Random         ? random() % 2 == 0
                        : options.timing == Timing::OperandsLate ? !fragment.gave_up
                                                                 : false;
  if (!gives_up) return false;
  fragment.gave_up = true;
  ++polls;
  return true;
}

bool Execution::time_out_waits() {
  bool any = false;
  for (const std::unique_ptr<Block>& block : blocks) {
    if (!block) continue;
    for (const std::unique_ptr<Warp>& warp : block->warps)
      for (Fragment& fragment : warp->fragments)
        if (fragment.blocked && fragment.may_time_out) any = fragment.timed_out = true;
  }
  return any;
}

std::string Execution::where_warps_wait() const {
  std::string result;
  std::size_t told = 0;
  for (const std::unique_ptr<Block>& block : blocks) {
    if (!block) continue;
    for (const std::unique_ptr<Warp>& warp : block->warps) {
      const auto tell = [&](LaneMask mask, std::int32_t pc, const std::string& what) {
        if (mask == 0 || ++told > maximum_waits_told) return;
        const auto index = static_cast<std::size_t>(pc);
        result += fmt::format("  block ({}, {}, {}) warp {} lanes {:#010x} at line {} ({}): {}\n",
                              block->index[0], block->index[1], block->index[2], warp->index, mask,
                              program.instructions[index].line, program.source[index], what);
      };
      for (const Fragment& fragment : warp->fragments)
        tell(fragment.mask, fragment.pc,
             fragment.blocked ? "waits for " + fragment.waits_for : "runs");
      for (const Meeting& meeting : warp->meetings)
        tell(meeting.arrived, meeting.pc,
             fmt::format("waits for lanes {:#010x} to come here",
                         meeting.expected & ~meeting.arrived));
    }
  }
  if (told > maximum_waits_told)
    result += fmt::format("  and {} more\n", told - maximum_waits_told);
  return result;
}

}  // namespace anydim::ptx
