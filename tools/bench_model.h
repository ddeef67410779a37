// Any model timed on one call's inputs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/call_inputs.h"
#include "tools/command.h"

namespace anydim::tools {

struct ModelBench {
  std::string model;
  CallOptions call;
  int streams = 1;               // threads that call at once, each its own context of the one model
  std::int64_t iterations = 10;  // timed calls of each stream, at least
  double duration = 3;           // seconds of timed calls, at least
  double warm_up = 0.2;          // seconds of calls before, at least one of each stream
  bool json = false;
};
void add_model_bench_options(CLI::App& command, ModelBench& bench);

// Prints calls a second and the latency of a call (mean, p50, p90, p99, least, most), over what is
// timed once every kernel is there; seconds of loading and until the first result; rows that a call
// was given and computed, where the model knows a mask. Each stream keeps at most 2^24 latencies
// and ends with the last.
void run_model_bench(const ModelBench& bench, const CompileOptions& options,
                     const ProcessClock& process);

// Between the two nearest ranks, as NumPy's percentile. `sorted` is, and not empty.
double percentile(std::span<const double> sorted, double share);

}  // namespace anydim::tools
