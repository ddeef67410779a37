#include "python/src/interpreter.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "python/src/errors.h"

namespace nb = nanobind;

namespace anydim::python {

namespace {

// There is one of each for the process, as there is one interpreter.
constinit std::atomic<int> under_way = 0;
constinit std::atomic<bool> ends = false;

}  // namespace

UnderWay::UnderWay() {
  if (ends) throw CallError("ClosedError", "the interpreter ends: no call begins any more");
  ++under_way;
}

UnderWay::~UnderWay() { --under_way; }

bool interpreter_ends() { return ends.load(std::memory_order_relaxed); }

void end_calls() {
  ends = true;
  const nb::gil_scoped_release released;
  while (under_way > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace anydim::python
