// What a table loses against the best schedule of every shape, on shapes that the tuner never
// measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tuner/partition.h"
#include "tuner/statistics.h"
#include "tuner/strategies.h"

namespace anydim::tuner {

// Fresh times of one region at unseen points. `latencies.seconds` holds the finalists re-measured;
// `again` the same measurements made once more or several times (each of the shape of
// latencies.seconds). Of the timings in turn two halves are made, each by its medians: what is best
// is chosen by one half and paid by the other, each way once, since the luckiest of several noisy
// times would be better than anything there is. A chosen schedule pays the mean of its two. One
// half against the other is the noise floor.
struct FreshLatencies {
  RegionLatencies latencies;
  std::vector<std::vector<std::vector<double>>> again{};
};

struct Regret {
  double expected_total = 0;  // (sum of weight * chosen) / (sum of weight * best) - 1
  double mean = 0;            // weighted mean over points of chosen / best - 1
  double percentile_99 = 0;   // weighted 99th percentile over points of chosen / best - 1
  // 95 % intervals over the rounds of timing, drawn again and again (bootstrap); the values
  // themselves where there was one round. They say what noise does, not which shapes come.
  Interval95 expected_total_interval{}, percentile_99_interval{};
};

struct StrategyRegret {
  std::string name;
  std::int64_t kernels = 0;
  double expected_seconds = 0;  // of a call, on the fresh times
  Regret regret;
  Interval95 over_first;  // 95 % interval of its expected seconds over those of the first strategy,
                          // from the same rounds
};
// A point where the first strategy loses most.
struct WorstShape {
  std::string region;  // identity; name once a run reports it
  std::vector<std::int64_t> keys;
  ir::Schedule chosen, best;
  double over_best = 0;  // chosen / best - 1
  double share = 0;      // of all launches
  double seconds = 0;    // a launch
};
struct RegretReport {
  std::vector<StrategyRegret> strategies;
  double best_seconds = 0;  // of a call: every point with its best
  Regret noise;  // the best by one half of the rounds, timed by the other, against itself
  std::int64_t rounds = 0;        // fewest of a region
  std::vector<WorstShape> worst;  // a few, the worst first
};
// The medians of all rounds.
RegionLatencies typical(const FreshLatencies& region);

// Throws Error{Inputs} where a table picks a schedule that the fresh times lack.
RegretReport regret(std::span<const FreshLatencies> fresh, std::span<const Strategy> strategies);

}  // namespace anydim::tuner
