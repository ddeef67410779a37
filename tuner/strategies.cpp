#include "tuner/strategies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/error.h"
#include "tuner/table_builder.h"

namespace anydim::tuner {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

bool anywhere(const RegionLatencies& latencies, std::size_t candidate) {
  return kernel_bucket(latencies, candidate) == latencies.range;
}

// The candidate that is best over the points; none where no one has a time at all of them.
std::size_t best_over(const RegionLatencies& latencies, std::span<const std::size_t> points) {
  std::size_t best = none;
  double least = infinity;
  for (std::size_t c = 0; c < latencies.candidates.size(); ++c) {
    if (!anywhere(latencies, c)) continue;
    double sum = 0, plain = 0;
    for (const std::size_t point : points) {
      sum += std::isinf(latencies.seconds[c][point])
                 ? infinity
                 : latencies.weights[point] * latencies.seconds[c][point];
      plain += latencies.seconds[c][point];
    }
    // Points without weight tell between candidates that are equal otherwise.
    sum += 1e-12 * plain;
    if (sum < least) least = sum, best = c;
  }
  return best;
}

ir::TunedEntry row_of(const RegionLatencies& latencies, std::size_t candidate,
                      const ir::Bucket& bucket) {
  return {.bucket = bucket, .kernel = bucket, .schedule = latencies.candidates[candidate].schedule};
}

std::vector<ir::TunedEntry> one_kernel(const RegionLatencies& latencies) {
  std::vector<std::size_t> all(latencies.points.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return {row_of(latencies, best_over(latencies, all), latencies.range)};
}

// Where each key is cut: first values of the upper side.
using Grid = std::vector<std::vector<std::int64_t>>;

// A kernel for each cell of the grid that points fall into; the last row is the first choice of one
// kernel for everything.
std::vector<ir::TunedEntry> grid_table(const RegionLatencies& latencies, const Grid& grid) {
  // position in the grid, points
  std::vector<std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> cells;
  for (std::size_t p = 0; p < latencies.points.size(); ++p) {
    std::vector<std::size_t> position;
    for (std::size_t key = 0; key < grid.size(); ++key)
      position.push_back(static_cast<std::size_t>(
          std::ranges::upper_bound(grid[key], latencies.points[p][key]) - grid[key].begin()));
    const auto cell =
        std::ranges::find(cells, position, [](const auto& known) { return known.first; });
    if (cell == cells.end()) cells.push_back({position, {p}});
    else cell->second.push_back(p);
  }
  std::vector<ir::TunedEntry> table;
  for (const auto& [position, points] : cells) {
    const std::size_t best = best_over(latencies, points);
    ir::Bucket bucket = latencies.range;
    for (std::size_t key = 0; key < grid.size(); ++key) {
      const std::vector<std::int64_t>& edges = grid[key];
      if (position[key] > 0) bucket.intervals[key].low = edges[position[key] - 1];
      if (position[key] < edges.size()) bucket.intervals[key].high = edges[position[key]] - 1;
    }
    if (bucket == latencies.range) return {row_of(latencies, best, bucket)};
    table.push_back(row_of(latencies, best, bucket));
  }
  return table;
}

// The extremes of a key over the points.
std::pair<std::int64_t, std::int64_t> extremes(const RegionLatencies& latencies, std::size_t key) {
  const auto [least, most] =
      std::ranges::minmax(latencies.points, {}, [&](const auto& point) { return point[key]; });
  return {least[key], most[key]};
}

// Edges at powers of 2^octaves.
Grid powers(const RegionLatencies& latencies, int octaves) {
  Grid grid(latencies.range.intervals.size());
  for (std::size_t key = 0; key < grid.size(); ++key) {
    const auto [least, most] = extremes(latencies, key);
    for (int power = octaves; power < 62 && (std::int64_t{1} << power) <= most; power += octaves)
      if ((std::int64_t{1} << power) > least) grid[key].push_back(std::int64_t{1} << power);
  }
  return grid;
}

Grid equal_widths(const RegionLatencies& latencies, std::int64_t count) {
  Grid grid(latencies.range.intervals.size());
  for (std::size_t key = 0; key < grid.size(); ++key) {
    const auto [least, most] = extremes(latencies, key);
    for (std::int64_t i = 1; i < count; ++i) {
      const auto edge =
          least + static_cast<std::int64_t>(static_cast<double>(most - least + 1) *
                                            static_cast<double>(i) / static_cast<double>(count));
      if (edge > least && edge <= most && (grid[key].empty() || edge > grid[key].back()))
        grid[key].push_back(edge);
    }
  }
  return grid;
}

std::int64_t rows(const std::vector<ir::TunedEntry>& table) {
  return static_cast<std::int64_t>(table.size());
}

// The finest grid that keeps within the budget.
std::vector<ir::TunedEntry> powers_table(const RegionLatencies& latencies, std::int64_t budget) {
  for (int octaves = 1; octaves < 62; ++octaves) {
    std::vector<ir::TunedEntry> table = grid_table(latencies, powers(latencies, octaves));
    if (rows(table) <= budget) return table;
  }
  return one_kernel(latencies);
}

std::vector<ir::TunedEntry> uniform_table(const RegionLatencies& latencies, std::int64_t budget) {
  std::vector<ir::TunedEntry> best = one_kernel(latencies);
  for (std::int64_t count = 2; count <= budget; ++count) {
    std::vector<ir::TunedEntry> table = grid_table(latencies, equal_widths(latencies, count));
    if (rows(table) > budget) break;
    best = std::move(table);
  }
  return best;
}

// Cells that no point fell into get the one kernel that is best for all; no expected shape meets
// it, so it is not counted.
void end_table(const RegionLatencies& latencies, std::vector<ir::TunedEntry>& table) {
  if (!(table.back().bucket == latencies.range)) table.push_back(one_kernel(latencies)[0]);
}

// Equal shares of the kernels, what is left over to the regions that take most time.
std::vector<std::int64_t> equal_shares(std::span<const RegionLatencies> regions,
                                       std::int64_t most) {
  std::vector<std::pair<double, std::size_t>> by_time;
  for (std::size_t r = 0; r < regions.size(); ++r) {
    double time = 0;
    for (std::size_t p = 0; p < regions[r].points.size(); ++p)
      time += regions[r].weights[p] * regions[r].seconds[fastest(regions[r].seconds, p)][p];
    by_time.emplace_back(-time, r);
  }
  std::ranges::sort(by_time);
  const auto count = static_cast<std::int64_t>(regions.size());
  std::vector<std::int64_t> shares(regions.size(), std::max<std::int64_t>(1, most / count));
  for (std::int64_t i = 0; i < most % count && most > count; ++i)
    ++shares[by_time[static_cast<std::size_t>(i)].second];
  return shares;
}

}  // namespace

std::size_t fastest(const std::vector<std::vector<double>>& seconds, std::size_t point) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < seconds.size(); ++c)
    if (seconds[c][point] < seconds[best][point]) best = c;
  return best;
}

std::vector<Strategy> usual_strategies(std::span<const RegionLatencies> seen,
                                       std::span<const RegionLatencies> unseen,
                                       std::int64_t most_kernels) {
  internal_check(seen.size() == unseen.size(), "both lists have the same regions");
  std::vector<Strategy> strategies{{"powers of two", 0, {}},
                                   {"uniform", 0, {}},
                                   {"one symbolic kernel", 0, {}},
                                   {"exact specialisation", 0, {}}};
  if (seen.empty()) return strategies;
  const std::vector<std::int64_t> shares = equal_shares(seen, most_kernels);
  for (std::size_t r = 0; r < seen.size(); ++r) {
    std::vector<ir::TunedEntry> exact;
    for (std::size_t p = 0; p < unseen[r].points.size(); ++p) {
      ir::Bucket point;
      for (const std::int64_t key : unseen[r].points[p])
        point.intervals.push_back({key, key, std::max<std::int64_t>(key, 1)});
      exact.push_back(row_of(unseen[r], fastest(unseen[r].seconds, p), point));
    }
    std::vector<ir::TunedEntry> tables[] = {powers_table(seen[r], shares[r]),
                                            uniform_table(seen[r], shares[r]), one_kernel(seen[r]),
                                            std::move(exact)};
    for (std::size_t s = 0; s < strategies.size(); ++s) {
      strategies[s].kernels += rows(tables[s]);
      end_table(seen[r], tables[s]);
      strategies[s].tables.push_back(std::move(tables[s]));
    }
  }
  return strategies;
}

std::vector<std::vector<std::size_t>> usual_choices(const RegionLatencies& latencies,
                                                    std::int64_t most) {
  std::vector<std::vector<std::size_t>> choices;
  for (const auto& table : {powers_table(latencies, most), uniform_table(latencies, most)}) {
    std::vector<std::size_t>& kept = choices.emplace_back();
    for (const ir::TunedEntry& row : table) {
      for (std::size_t c = 0; c < latencies.candidates.size(); ++c)
        if (latencies.candidates[c].schedule == row.schedule && anywhere(latencies, c))
          kept.push_back(c);
    }
  }
  return choices;
}

}  // namespace anydim::tuner
