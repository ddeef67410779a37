// Happens-before. An actor is whoever touches memory: a warp's 32 lanes, an mbarrier on behalf of
// the copies that it counts, or a warp's groups of asynchronous work of one sort. An access is
// marked (actor, lane, clock); what an observer has seen of each actor's lanes is a ClockSet.
// Clocks of a warp grow whenever it publishes; those of an mbarrier are its phases, those of groups
// their numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace anydim::ptx {

using LaneMask = std::uint32_t;

struct Actor {
  std::uint32_t base = 0;    // first component in a ClockSet
  std::uint16_t number = 0;  // 0: nobody
  std::uint16_t lanes = 1;
};

// Shared and never changed once it is shared. Missing components are 0: nothing seen.
using ClockSet = std::vector<std::uint32_t>;
using SharedClocks = std::shared_ptr<const ClockSet>;

SharedClocks join(const SharedClocks& a, const SharedClocks& b);
SharedClocks with(const SharedClocks& a, std::uint32_t component, std::uint32_t clock);

// What one has seen (`generic`), and what lies before a proxy fence that one has seen (`fenced`).
// Asynchronous work sees an ordinary write only if its issuer has seen it and it is fenced.
struct Knowledge {
  SharedClocks generic;
  SharedClocks fenced;
  void join(const Knowledge& other);
  void add(const Actor& actor, int lane, std::uint32_t clock);  // to `generic`
};

inline std::uint32_t clock_of(const SharedClocks& clocks, std::uint32_t component) {
  return clocks && component < clocks->size() ? (*clocks)[component] : 0;
}

}  // namespace anydim::ptx
