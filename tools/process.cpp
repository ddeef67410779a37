#include "tools/process.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace anydim::tools {

namespace {

using Clock = std::chrono::steady_clock;

double reading(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Age of the process by the system's clock of 10 ms ticks, at least.
double least_age() {
  std::ifstream file("/proc/self/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  // The name, in parentheses, may hold anything; 19 fields follow it before the start time.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;
  if (!fields) return 0;
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(0.0, reading(CLOCK_BOOTTIME) - std::stod(field) * tick - tick);
}

}  // namespace

ProcessClock::ProcessClock() : main_(Clock::now()), before_main_(std::max(reading(CLOCK_PROCESS_CPUTIME_ID), least_age())) {}

double ProcessClock::seconds() const { return before_main_ + std::chrono::duration<double>(Clock::now() - main_).count(); }

std::int64_t mapped_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

std::int64_t peak_resident_bytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && file >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace anydim::tools
