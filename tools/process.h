// What this process has cost so far.
#pragma once

#include <chrono>
#include <cstdint>

namespace anydim::tools {

// Made first in main.
class ProcessClock {
 public:
  ProcessClock();
  // Since the process was started. What lies before main is the processor time used by then, or what the system's 10 ms clock shows at least.
  double seconds() const;

 private:
  std::chrono::steady_clock::time_point main_;
  double before_main_ = 0;
};

std::int64_t peak_resident_bytes();
// Address space of this process now; 0 where the system does not tell.
std::int64_t mapped_bytes();

}  // namespace anydim::tools
