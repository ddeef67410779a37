#include "tools/process.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "api/anydim.h"

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

// Recursions over a model are bounded by depths that fit many times (docs/limits.md); pages that
// are never touched cost nothing.
constexpr std::size_t work_stack = std::size_t{64} << 20;
constexpr std::size_t usual_stack = std::size_t{8} << 20;

struct Attributes {
  pthread_attr_t value{};
  Attributes() { pthread_attr_init(&value); }
  ~Attributes() { pthread_attr_destroy(&value); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
};

struct Work {
  const std::function<int()>& function;
  int result = 0;
};

void report_cut_file(int number, siginfo_t* fault, void*) {
  if (fault->si_code != BUS_ADRERR) {
    std::signal(number, SIG_DFL);
    return;  // the access faults again, now to its usual end
  }
  // Nothing else is safe within a signal.
  constexpr std::string_view message =
      "anydim: a file of the model's weights became shorter while it was read; leave it as it is "
      "while the model runs\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(static_cast<int>(ErrorKind::Malformed));
}

void* carry_out(void* argument) {
  auto& work = *static_cast<Work*>(argument);
  work.result = work.function();
  return nullptr;
}

}  // namespace

ProcessClock::ProcessClock()
    : main_(Clock::now()), before_main_(std::max(reading(CLOCK_PROCESS_CPUTIME_ID), least_age())) {}

double ProcessClock::seconds() const {
  return before_main_ + std::chrono::duration<double>(Clock::now() - main_).count();
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

void explain_cut_files() {
  struct sigaction action{};
  action.sa_sigaction = report_cut_file;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

int run_on_own_stack(const std::function<int()>& work) {
  Attributes usual;
  pthread_getattr_default_np(&usual.value);
  std::size_t size = 0;
  pthread_attr_getstacksize(&usual.value, &size);
  if (size < usual_stack && pthread_attr_setstacksize(&usual.value, usual_stack) == 0)
    pthread_setattr_default_np(&usual.value);

  Attributes attributes;
  pthread_attr_setstacksize(&attributes.value, work_stack);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_attr_setsigmask_np(&attributes.value, &before);
  Work carried{work};
  pthread_t thread{};
  const int fault = pthread_create(&thread, &attributes.value, carry_out, &carried);
  if (fault != 0) {
    throw Error(ErrorKind::Resource,
                "a thread with a stack of {} MiB cannot be started: {}; give this process more "
                "memory or more threads (ulimit -v, ulimit -u)",
                work_stack >> 20, std::strerror(fault));
  }
  pthread_join(thread, nullptr);
  return carried.result;
}

}  // namespace anydim::tools
