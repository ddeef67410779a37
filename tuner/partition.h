// Which kernels a model keeps, and which shapes each serves.
//
// At most K distinct kernels over the whole model, every region at least one; one kernel may serve
// any number of intervals. What is minimised is the expected seconds of a call, sum over regions
// and points of weight * least seconds among the region's kept kernels: a k-median problem whose
// budget is shared by the regions. It is solved from a start by interval dynamic programming, by
// swaps, and bounded from below by a Lagrangian relaxation of "each point is served once"
// (Cornuejols, Fisher, Nemhauser 1977), whose bound is that of the linear relaxation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "ir/tuning_table.h"

namespace anydim::tuner {

// A kernel that might be kept: a schedule, compiled for keys that are multiples of these (empty:
// any).
struct KernelCandidate {
  ir::Schedule schedule;
  std::vector<std::int64_t> multiples{};
  bool operator==(const KernelCandidate&) const = default;
};

// One region's rows of the latency matrix.
struct RegionLatencies {
  std::string region;                             // identity
  ir::Bucket range;                               // all values that its keys may take
  std::vector<std::vector<std::int64_t>> points;  // values of the keys; distinct
  // expected launches at the point in one call of the model; not negative
  std::vector<double> weights;
  std::vector<KernelCandidate> candidates;
  // [candidate][point]; infinity where the candidate may not run there (illegal, wrong, crashed,
  // not divisible) or was not timed.
  std::vector<std::vector<double>> seconds;
  // [candidate][point]; empty: all predicted. A table's row counts as measured where its candidate
  // was at any point.
  std::vector<std::vector<bool>> measured{};
  // Where the fastest schedule may change, a list a key, ascending (ir::Backend::key_edges): an
  // edge between two points is laid on one of these where there is one, else on the larger point.
  std::vector<std::vector<std::int64_t>> edges{};
};

struct RegionChoice {
  std::vector<std::size_t> candidates;  // kept
  std::vector<ir::TunedEntry> entries;  // a total table over RegionLatencies::range
};

struct Partition {
  std::vector<RegionChoice> regions;  // in the order given
  std::int64_t kernels = 0;           // kept, over all regions
  double expected_seconds = 0;     // of a call: weights times the seconds of what each table picks
  double lower_bound_seconds = 0;  // no choice of that many kernels is faster
  double unlimited_seconds = 0;    // every point with its best candidate
};

// Throws Error{CommandLine} where most_kernels is below the number of regions, Error{Inputs} where
// no candidate serves all points of a region, or where numbers are missing or not finite. A
// region's table has at most `most_entries` rows.
Partition choose_kernels(std::span<const RegionLatencies> regions, std::int64_t most_kernels,
                         std::size_t most_entries = 64);

// The same with an eye on the rare: while the slowest hundredth of launches takes more than
// `most_slowdown` times the best candidate's time, launches beyond that count for more, tables are
// chosen anew, and kept where the slowest hundredth gains and the expected seconds grow by no more
// than the share `price`.
struct Tail {
  double most_slowdown = 1.05;
  double price = 0.01;
};
Partition choose_kernels(std::span<const RegionLatencies> regions, std::int64_t most_kernels,
                         const Tail& tail);
// The 99th percentile over launches of the time that the tables' kernels take, over the best
// candidate's.
double tail_slowdown(std::span<const RegionLatencies> regions, const Partition& partition);

// The row that a table picks at a point; entries.size() where none contains it.
std::size_t entry_at(std::span<const ir::TunedEntry> entries, std::span<const std::int64_t> keys);

}  // namespace anydim::tuner
