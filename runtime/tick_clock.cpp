#include "runtime/tick_clock.h"

namespace anydim::runtime {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

std::uint64_t clock_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
#endif
}

TickClock::TickClock() : first_ticks_(clock_ticks()), first_time_(Clock::now()) {}

double TickClock::seconds_a_tick() const {
  constexpr std::chrono::milliseconds least{1};
  while (Clock::now() - first_time_ < least) continue;
  const std::uint64_t ticks = clock_ticks() - first_ticks_;
  const double seconds = std::chrono::duration<double>(Clock::now() - first_time_).count();
  return ticks > 0 ? seconds / static_cast<double>(ticks) : 0;
}

}  // namespace anydim::runtime
