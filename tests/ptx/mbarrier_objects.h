// The mbarriers of a block: their counts, and what each phase makes visible to those who wait for
// it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/ptx/execution.h"
#include "tests/ptx/shared_place.h"
#include "tests/ptx/units/mbarrier.h"

namespace anydim::ptx {

struct MbarrierObject {
  Mbarrier state;
  std::byte* word = nullptr;  // the 8 bytes in shared memory
  // Copies that this barrier counts access memory as this actor's lane 0; the clock is the phase
  // they complete in.
  Actor actor;
  Knowledge gathered;  // of all arrivals so far
  Knowledge released;  // what the last completed phase gives to those who waited for it
  // Who initialised it, and whether fence.mbarrier_init followed: asynchronous work needs that.
  Actor author;
  int author_lane = 0;
  std::uint32_t author_clock = 0;
  bool fenced = false;
};

struct MbarrierObjects {
  std::map<std::uint32_t, MbarrierObject> objects;  // by shared address
};

// The mbarrier at a place, for an operation of `lane` that changes it or only looks
// (AccessKind::Read). Checks that its word is intact and that its initialisation comes before (a
// race otherwise); stops the launch where there is none.
MbarrierObject& find_mbarrier(Warp& warp, Space space, std::uint64_t address, int lane,
                              AccessKind kind = AccessKind::Atomic);
// The same of an operation whose access has been checked.
MbarrierObject& accessed_mbarrier(Warp& warp, Space space, std::uint64_t address, int lane);

// For asynchronous work that the author issued: its block may have ended and its word been
// overwritten. Empty or what is wrong.
MbarrierObject* mbarrier_for_copy(Block& block, std::uint32_t address, std::string& wrong);

// Whether work that knows `seen` may count on the barrier's initialisation through the async proxy.
bool initialised_for_copies(const MbarrierObject& object, const Knowledge& seen, const Warp& issuer,
                            int lane);

// Applies a change of state, given by a function of tests/ptx/units/mbarrier.h, and releases the
// phase if that completed it. Empty or what is wrong.
template <class Change>
std::string change_mbarrier(Execution& execution, MbarrierObject& object, Change change);

// Bytes of asynchronous work have arrived.
std::string complete_transactions(Execution& execution, MbarrierObject& object, std::int64_t bytes);

void settle_mbarrier(Execution& execution, MbarrierObject& object, bool parity_before);

template <class Change>
std::string change_mbarrier(Execution& execution, MbarrierObject& object, Change change) {
  const bool parity = object.state.parity;
  std::string wrong = change(object.state);
  if (wrong.empty()) settle_mbarrier(execution, object, parity);
  return wrong;
}

}  // namespace anydim::ptx
