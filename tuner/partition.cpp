#include "tuner/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ir/error.h"
#include "tuner/median.h"
#include "tuner/statistics.h"
#include "tuner/strategies.h"
#include "tuner/table_builder.h"

namespace anydim::tuner {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

void check(const RegionLatencies& region) {
  const auto wrong = [&](const std::string& why) {
    return Error(ErrorKind::Inputs, "the latencies of region `{}` cannot be used: {}",
                 region.region.substr(0, 60), why);
  };
  if (region.points.empty() || region.candidates.empty())
    throw wrong("it has no points or no candidates");
  if (region.weights.size() != region.points.size()) throw wrong("there is not one weight a point");
  if (region.seconds.size() != region.candidates.size())
    throw wrong("there is not one row of times a candidate");
  for (const auto& row : region.seconds) {
    if (row.size() != region.points.size()) throw wrong("there is not one time a point");
    if (std::ranges::any_of(row, [](double seconds) { return std::isnan(seconds) || seconds < 0; }))
      throw wrong("a time is negative or no number");
  }
  if (!std::ranges::all_of(region.weights,
                           [](double weight) { return std::isfinite(weight) && weight >= 0; }))
    throw wrong("a weight is negative or not finite");
  for (const auto& point : region.points)
    if (!region.range.contains(point)) throw wrong("a point lies outside of the range of its keys");
  for (const KernelCandidate& candidate : region.candidates) {
    const std::vector<std::int64_t>& multiples = candidate.multiples;
    if (!multiples.empty() &&
        (multiples.size() != region.range.intervals.size() ||
         std::ranges::any_of(multiples, [](std::int64_t m) { return m < 1; })))
      throw wrong(
          fmt::format("`{}` has not one positive multiple a key", to_string(candidate.schedule)));
  }
  for (std::size_t c = 0; c < region.candidates.size(); ++c)
    if (is_general(region, c)) return;
  throw wrong("no candidate has a time at every point");
}

// Columns in the order of the points' keys, which the interval start relies on.
CostMatrix costs_of(const RegionLatencies& region) {
  std::vector<std::size_t> order(region.points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t point) { return region.points[point]; });
  CostMatrix matrix{.candidates = region.candidates.size(), .points = order.size()};
  for (std::size_t c = 0; c < matrix.candidates; ++c) {
    matrix.general.push_back(is_general(region, c));
    for (const std::size_t point : order) {
      const double seconds = serves(region, c, point) ? region.seconds[c][point] : infinity;
      matrix.costs.push_back(std::isinf(seconds) ? infinity : region.weights[point] * seconds);
    }
  }
  return matrix;
}

// At a point, of the candidate that the table picks there.
double picked_seconds(const RegionLatencies& region, std::span<const ir::TunedEntry> entries,
                      std::size_t point) {
  const ir::TunedEntry& row = entries[entry_at(entries, region.points[point])];
  for (std::size_t c = 0; c < region.candidates.size(); ++c)
    if (region.candidates[c].schedule == row.schedule && kernel_bucket(region, c) == row.kernel)
      return region.seconds[c][point];
  internal_error("a table's rows are candidates");
}

double table_cost(const RegionLatencies& region, std::span<const ir::TunedEntry> entries) {
  double sum = 0;
  for (std::size_t p = 0; p < region.points.size(); ++p)
    sum += region.weights[p] * picked_seconds(region, entries, p);
  return sum;
}

}  // namespace

Partition choose_kernels(std::span<const RegionLatencies> regions, std::int64_t most_kernels,
                         std::size_t most_entries) {
  if (most_kernels < static_cast<std::int64_t>(regions.size())) {
    throw Error(ErrorKind::CommandLine,
                "--max-kernels {} is below the {} regions of the model, each of which needs a "
                "kernel; give at least {}",
                most_kernels, regions.size(), regions.size());
  }
  std::vector<CostMatrix> matrices;
  for (const RegionLatencies& region : regions) {
    check(region);
    matrices.push_back(costs_of(region));
  }
  std::size_t most = 0;
  for (const CostMatrix& matrix : matrices) most += matrix.candidates;
  most = static_cast<std::size_t>(std::min(most_kernels, static_cast<std::int64_t>(most)));

  std::vector<std::vector<std::vector<std::size_t>>> choices;
  std::vector<std::vector<double>> costs;
  for (std::size_t r = 0; r < regions.size(); ++r) {
    // What the usual buckets would keep is where the search starts too, so that it never loses to
    // them.
    const auto starts = [&](std::size_t count) {
      return usual_choices(regions[r], static_cast<std::int64_t>(count));
    };
    choices.push_back(choices_by_count(matrices[r], most - (regions.size() - 1), starts));
    std::vector<double>& own = costs.emplace_back();
    for (const auto& kept : choices.back()) own.push_back(cost_of(matrices[r], kept));
  }
  const std::vector<std::size_t> shares = share_out(costs, most);

  Partition partition;
  double chosen = 0;
  for (std::size_t r = 0; r < regions.size(); ++r) {
    RegionChoice& choice = partition.regions.emplace_back();
    choice.candidates = choices[r][shares[r] - 1];
    choice.entries = build_table(regions[r], choice.candidates, most_entries);
    partition.kernels += static_cast<std::int64_t>(choice.candidates.size());
    partition.expected_seconds += table_cost(regions[r], choice.entries);
    chosen += costs[r][shares[r] - 1];
    std::vector<std::size_t> all(matrices[r].candidates);
    std::iota(all.begin(), all.end(), std::size_t{0});
    partition.unlimited_seconds += cost_of(matrices[r], all);
  }
  partition.lower_bound_seconds =
      std::max(lower_bound(matrices, most, chosen), partition.unlimited_seconds);
  partition.lower_bound_seconds =
      std::min(partition.lower_bound_seconds, partition.expected_seconds);
  return partition;
}

namespace {

// The time of what a region's table picks at a point over the best candidate's. 1 where neither
// takes any.
double slowdown(const RegionLatencies& region, const RegionChoice& choice, std::size_t point) {
  const double taken = picked_seconds(region, choice.entries, point),
               best = region.seconds[fastest(region.seconds, point)][point];
  return taken > best ? taken / best : 1;
}

Partition priced(std::span<const RegionLatencies> regions, Partition partition,
                 const Partition& at) {
  partition.expected_seconds = 0;
  for (std::size_t r = 0; r < regions.size(); ++r)
    partition.expected_seconds += table_cost(regions[r], partition.regions[r].entries);
  partition.lower_bound_seconds = std::min(at.lower_bound_seconds, partition.expected_seconds);
  partition.unlimited_seconds = at.unlimited_seconds;
  return partition;
}

}  // namespace

double tail_slowdown(std::span<const RegionLatencies> regions, const Partition& partition) {
  std::vector<std::pair<double, double>> launches;  // slowdown, weight
  for (std::size_t r = 0; r < regions.size(); ++r)
    for (std::size_t p = 0; p < regions[r].points.size(); ++p)
      launches.emplace_back(slowdown(regions[r], partition.regions[r], p), regions[r].weights[p]);
  return weighted_percentile_99(std::move(launches));
}

Partition choose_kernels(std::span<const RegionLatencies> regions, std::int64_t most_kernels,
                         const Tail& tail) {
  constexpr int rounds = 8;
  constexpr double raise = 3;
  const Partition plain = choose_kernels(regions, most_kernels);
  Partition best = plain;
  double best_tail = tail_slowdown(regions, best);
  std::vector<RegionLatencies> raised(regions.begin(), regions.end());
  Partition last = plain;
  for (int round = 0; round < rounds && best_tail > tail.most_slowdown; ++round) {
    for (std::size_t r = 0; r < regions.size(); ++r)
      for (std::size_t p = 0; p < regions[r].points.size(); ++p)
        if (slowdown(regions[r], last.regions[r], p) > tail.most_slowdown)
          raised[r].weights[p] *= raise;
    last = priced(regions, choose_kernels(raised, most_kernels), plain);
    const double last_tail = tail_slowdown(regions, last);
    if (last_tail < best_tail &&
        last.expected_seconds <= (1 + tail.price) * plain.expected_seconds) {
      best = last;
      best_tail = last_tail;
    }
  }
  return best;
}

std::size_t entry_at(std::span<const ir::TunedEntry> entries, std::span<const std::int64_t> keys) {
  return static_cast<std::size_t>(
      std::ranges::find_if(entries,
                           [&](const ir::TunedEntry& row) { return row.bucket.contains(keys); }) -
      entries.begin());
}

}  // namespace anydim::tuner
