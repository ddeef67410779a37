// Waiting for another thread that is expected within a microsecond or so.
#pragma once

#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace anydim::runtime {

// Pauses cheaply at first; after some tens of microseconds it lets other threads have the
// processor, for machines with more threads than cores.
class Spin {
 public:
  void pause() {
    if (++count_ > pauses_before_yield) {
      sched_yield();
      return;
    }
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

 private:
  static constexpr int pauses_before_yield = 2000;
  int count_ = 0;
};

}  // namespace anydim::runtime
