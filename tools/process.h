// The process: what it has cost so far, and the stack that its work has.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace anydim::tools {

// Made first in main.
class ProcessClock {
 public:
  ProcessClock();
  // Since the process was started. What lies before main is the processor time used by then, or
  // what the system's 10 ms clock shows at least.
  double seconds() const;

 private:
  std::chrono::steady_clock::time_point main_;
  double before_main_ = 0;
};

std::int64_t peak_resident_bytes();

// Carries `work` out on a thread whose stack has a known size, whatever the shell's limit (ulimit
// -s) is, and gives its result. Signals reach that thread alone. Other threads that are begun later
// have stacks of a usual size. Throws Error{Resource} where there is no memory for the stack.
int run_on_own_stack(const std::function<int()>& work);

// Weights in files of their own are read where they are mapped: a file that is cut meanwhile ends
// the process by SIGBUS. From now on that says so on standard error and exits as a malformed file
// does.
void explain_cut_files();

}  // namespace anydim::tools
