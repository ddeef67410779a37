// The processor's own clock where it has one that user code may read, which costs a third of the
// system's.
#pragma once

#include <chrono>
#include <cstdint>

namespace anydim::runtime {

std::uint64_t clock_ticks();

// How long a tick is follows from how many there have been since this was made.
class TickClock {
 public:
  TickClock();
  std::uint64_t first() const { return first_ticks_; }
  // Seconds of one tick. Waits until there is a millisecond's worth, for a precise answer.
  double seconds_a_tick() const;

 private:
  std::uint64_t first_ticks_;
  std::chrono::steady_clock::time_point first_time_;
};

}  // namespace anydim::runtime
