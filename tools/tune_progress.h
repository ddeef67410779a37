// What `anydim tune` says while it works.
#pragma once

#include <chrono>

#include "api/anydim.h"
#include "api/tuning_run.h"

namespace anydim::tools {

// On standard error: one line that is written over where that is a terminal, else a plain line
// every ten seconds.
class TuneLine {
 public:
  explicit TuneLine(bool quiet);
  ~TuneLine();  // ends the live line
  void show(const tuner::TuneProgress& progress);

 private:
  bool quiet_, live_, shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// Ctrl-C (SIGINT) and SIGTERM wait from here on until they are asked for, so that a run ends in
// order.
class HeldInterrupts {
 public:
  HeldInterrupts();
  ~HeldInterrupts();  // lets them through: this process ends by one that came
  bool came() const;
};

}  // namespace anydim::tools
