#include "tools/tune_progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "tools/output.h"

namespace anydim::tools {

namespace {

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// Columns of the terminal: a longer line would begin another one, which is not written over.
std::size_t terminal_width() {
  constexpr std::size_t usual = 80, fewest = 20;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return usual;
  return std::max<std::size_t>(size.ws_col, fewest);
}

}  // namespace

TuneLine::TuneLine(bool quiet) : quiet_(quiet), live_(isatty(STDERR_FILENO) != 0) {}

TuneLine::~TuneLine() {
  if (live_ && shown_) complain("\n");
}

void TuneLine::show(const tuner::TuneProgress& progress) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  const auto pause = live_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (shown_ && now - last_ < pause) return;
  last_ = now;
  shown_ = true;
  const double gain =
      progress.default_seconds > 0 ? 1 - progress.best_seconds / progress.default_seconds : 0;
  const std::string roofline =
      progress.roofline_seconds > 0
          ? fmt::format(", {:.0f} % of the roofline",
                        100 * progress.roofline_seconds / progress.best_seconds)
          : "";
  std::string line = fmt::format(
      "tune: {:.0f} s left, {} of {} candidates, a call {:.3f} ms ({:+.1f} % of {:.3f} ms{}), {}: "
      "{}",
      progress.seconds_left, progress.trials, progress.space, 1e3 * progress.best_seconds,
      -100 * gain, 1e3 * progress.default_seconds, roofline, progress.region, progress.candidate);
  if (live_) line.resize(std::min(line.size(), terminal_width() - 1));
  complain_exactly(
      fmt::format("{}{}{}", live_ ? "\r\x1b[K" : "", ir::printable(line), live_ ? "" : "\n"));
}

HeldInterrupts::HeldInterrupts() {
  const sigset_t held = interrupts();
  sigprocmask(SIG_BLOCK, &held, nullptr);
}

HeldInterrupts::~HeldInterrupts() {
  std::fflush(stdout);
  const sigset_t held = interrupts();
  sigprocmask(SIG_UNBLOCK, &held, nullptr);
}

bool HeldInterrupts::came() const {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1;
}

}  // namespace anydim::tools
