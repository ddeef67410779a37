// What a table loses against the best schedule of every shape, on shapes that the tuner never measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tuner/partition.h"

namespace anydim::tuner {

// Fresh times of one region at unseen points. `latencies.seconds` holds the finalists re-measured; `again` the same measurements made a second time
// (same shape as latencies.seconds), which gives the noise floor. With both, what is best is chosen by one timing and paid by the other, each way once: the luckiest of
// several noisy times would be better than anything there is. A chosen schedule pays the mean of its two.
struct FreshLatencies {
  RegionLatencies latencies;
  std::vector<std::vector<double>> again{};
};

struct Regret {
  double expected_total = 0;  // (sum of weight * chosen) / (sum of weight * best) - 1
  double mean = 0;            // weighted mean over points of chosen / best - 1
  double percentile_99 = 0;   // weighted 99th percentile over points of chosen / best - 1
};

// One way to serve all shapes.
struct Strategy {
  std::string name;          // "tuned", "powers of two", "uniform", "one symbolic kernel", "exact specialisation", ...
  std::int64_t kernels = 0;  // distinct, over the model
  std::vector<std::vector<ir::TunedEntry>> tables;  // in the order of the regions
};

// The usual ways, chosen from the same measurements as the tuned table (`seen`), with at most `most_kernels` kernels except for exact specialisation (one
// for each region and point of `unseen`, free to take the best there). In bucketed ones each bucket is a kernel of its own, with the schedule that is best over the bucket.
std::vector<Strategy> usual_strategies(std::span<const RegionLatencies> seen, std::span<const RegionLatencies> unseen,
                                       std::int64_t most_kernels);

struct StrategyRegret {
  std::string name;
  std::int64_t kernels = 0;
  double expected_seconds = 0;  // of a call, on the fresh times
  Regret regret;
};
struct RegretReport {
  std::vector<StrategyRegret> strategies;
  double best_seconds = 0;  // of a call: every point with its best
  Regret noise;             // the best of the first times, timed again, against itself
};
// Throws Error{Inputs} where a table picks a schedule that the fresh times lack.
RegretReport regret(std::span<const FreshLatencies> fresh, std::span<const Strategy> strategies);

}  // namespace anydim::tuner
