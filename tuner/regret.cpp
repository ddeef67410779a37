#include "tuner/regret.h"

#include <fmt/format.h>

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

// One point of one region: how often, what was paid and what would have been best.
struct Paid {
  double weight = 0, seconds = 0, best = 0;
};

Regret regret_of(const std::vector<Paid>& all) {
  double weight = 0, paid = 0, best = 0, ratios = 0;
  std::vector<std::pair<double, double>> by_ratio;  // ratio, weight
  for (const Paid& one : all) {
    const double ratio = one.best > 0 ? one.seconds / one.best - 1 : 0;
    weight += one.weight;
    paid += one.weight * one.seconds;
    best += one.weight * one.best;
    ratios += one.weight * ratio;
    by_ratio.emplace_back(ratio, one.weight);
  }
  Regret regret;
  if (!(weight > 0)) return regret;
  regret.expected_total = best > 0 ? paid / best - 1 : 0;
  regret.mean = ratios / weight;
  std::ranges::sort(by_ratio);
  double reached = 0;
  for (const auto& [ratio, share] : by_ratio) {
    reached += share;
    regret.percentile_99 = ratio;
    if (reached >= 0.99 * weight) break;
  }
  return regret;
}

// The candidate whose time is that of the row: compiled for the same shapes, else the same schedule compiled for more.
std::size_t candidate_of(const RegionLatencies& latencies, const ir::TunedEntry& row) {
  std::size_t found = none;
  for (std::size_t c = 0; c < latencies.candidates.size(); ++c) {
    if (!(latencies.candidates[c].schedule == row.schedule)) continue;
    const ir::Bucket kernel = kernel_bucket(latencies, c);
    if (kernel == row.kernel) return c;
    if (found == none && contains(kernel, row.bucket)) found = c;
  }
  return found;
}

std::size_t fastest(const std::vector<std::vector<double>>& seconds, std::size_t point) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < seconds.size(); ++c)
    if (seconds[c][point] < seconds[best][point]) best = c;
  return best;
}

double paid_seconds(const FreshLatencies& region, std::size_t candidate, std::size_t point) {
  const double first = region.latencies.seconds[candidate][point];
  return region.again.empty() ? first : (first + region.again[candidate][point]) / 2;
}

double best_seconds(const FreshLatencies& region, std::size_t point) {
  const std::vector<std::vector<double>>& first = region.latencies.seconds;
  const std::size_t by_first = fastest(first, point);
  if (region.again.empty()) return first[by_first][point];
  const double crossed = (region.again[by_first][point] + first[fastest(region.again, point)][point]) / 2;
  return std::isinf(crossed) ? first[by_first][point] : crossed;
}

// ---- The usual ways ----

bool anywhere(const RegionLatencies& latencies, std::size_t candidate) { return kernel_bucket(latencies, candidate) == latencies.range; }

// The candidate that is best over the points; none where no one has a time at all of them.
std::size_t best_over(const RegionLatencies& latencies, std::span<const std::size_t> points) {
  std::size_t best = none;
  double least = infinity;
  for (std::size_t c = 0; c < latencies.candidates.size(); ++c) {
    if (!anywhere(latencies, c)) continue;
    double sum = 0, plain = 0;
    for (const std::size_t point : points) {
      sum += std::isinf(latencies.seconds[c][point]) ? infinity : latencies.weights[point] * latencies.seconds[c][point];
      plain += latencies.seconds[c][point];
    }
    // Points without weight tell between candidates that are equal otherwise.
    sum += 1e-12 * plain;
    if (sum < least) least = sum, best = c;
  }
  return best;
}

ir::TunedEntry row_for(const RegionLatencies& latencies, std::size_t candidate, const ir::Bucket& bucket) {
  return {.bucket = bucket, .kernel = bucket, .schedule = latencies.candidates[candidate].schedule};
}

std::vector<ir::TunedEntry> one_kernel(const RegionLatencies& latencies) {
  std::vector<std::size_t> all(latencies.points.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return {row_for(latencies, best_over(latencies, all), latencies.range)};
}

// Where each key is cut: first values of the upper side.
using Grid = std::vector<std::vector<std::int64_t>>;

// A kernel for each cell of the grid that points fall into; the last row is the first choice of one kernel for everything.
std::vector<ir::TunedEntry> grid_table(const RegionLatencies& latencies, const Grid& grid) {
  std::vector<std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> cells;  // position in the grid, points
  for (std::size_t p = 0; p < latencies.points.size(); ++p) {
    std::vector<std::size_t> position;
    for (std::size_t key = 0; key < grid.size(); ++key)
      position.push_back(static_cast<std::size_t>(std::ranges::upper_bound(grid[key], latencies.points[p][key]) - grid[key].begin()));
    const auto cell = std::ranges::find(cells, position, [](const auto& known) { return known.first; });
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
    if (bucket == latencies.range) return {row_for(latencies, best, bucket)};
    table.push_back(row_for(latencies, best, bucket));
  }
  return table;
}

// The extremes of a key over the points.
std::pair<std::int64_t, std::int64_t> extremes(const RegionLatencies& latencies, std::size_t key) {
  const auto [least, most] = std::ranges::minmax(latencies.points, {}, [&](const auto& point) { return point[key]; });
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
          least + static_cast<std::int64_t>(static_cast<double>(most - least + 1) * static_cast<double>(i) / static_cast<double>(count));
      if (edge > least && edge <= most && (grid[key].empty() || edge > grid[key].back())) grid[key].push_back(edge);
    }
  }
  return grid;
}

std::int64_t rows(const std::vector<ir::TunedEntry>& table) { return static_cast<std::int64_t>(table.size()); }

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

// Cells that no point fell into get the one kernel that is best for all; no expected shape meets it, so it is not counted.
void end_table(const RegionLatencies& latencies, std::vector<ir::TunedEntry>& table) {
  if (!(table.back().bucket == latencies.range)) table.push_back(one_kernel(latencies)[0]);
}

// Equal shares of the kernels, what is left over to the regions that take most time.
std::vector<std::int64_t> equal_shares(std::span<const RegionLatencies> regions, std::int64_t most) {
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
  for (std::int64_t i = 0; i < most % count && most > count; ++i) ++shares[by_time[static_cast<std::size_t>(i)].second];
  return shares;
}

}  // namespace

std::vector<Strategy> usual_strategies(std::span<const RegionLatencies> seen, std::span<const RegionLatencies> unseen,
                                       std::int64_t most_kernels) {
  internal_check(seen.size() == unseen.size(), "both lists have the same regions");
  std::vector<Strategy> strategies{
      {"powers of two", 0, {}}, {"uniform", 0, {}}, {"one symbolic kernel", 0, {}}, {"exact specialisation", 0, {}}};
  if (seen.empty()) return strategies;
  const std::vector<std::int64_t> shares = equal_shares(seen, most_kernels);
  for (std::size_t r = 0; r < seen.size(); ++r) {
    std::vector<ir::TunedEntry> exact;
    for (std::size_t p = 0; p < unseen[r].points.size(); ++p) {
      ir::Bucket point;
      for (const std::int64_t key : unseen[r].points[p]) point.intervals.push_back({key, key, std::max<std::int64_t>(key, 1)});
      exact.push_back(row_for(unseen[r], fastest(unseen[r].seconds, p), point));
    }
    std::vector<ir::TunedEntry> tables[] = {powers_table(seen[r], shares[r]), uniform_table(seen[r], shares[r]), one_kernel(seen[r]),
                                            std::move(exact)};
    for (std::size_t s = 0; s < strategies.size(); ++s) {
      strategies[s].kernels += rows(tables[s]);
      end_table(seen[r], tables[s]);
      strategies[s].tables.push_back(std::move(tables[s]));
    }
  }
  return strategies;
}

RegretReport regret(std::span<const FreshLatencies> fresh, std::span<const Strategy> strategies) {
  RegretReport report;
  std::vector<Paid> noise;
  for (const FreshLatencies& region : fresh) {
    const RegionLatencies& latencies = region.latencies;
    for (std::size_t p = 0; p < latencies.points.size(); ++p) {
      const std::size_t best = fastest(latencies.seconds, p);
      report.best_seconds += latencies.weights[p] * best_seconds(region, p);
      if (!region.again.empty()) noise.push_back({latencies.weights[p], region.again[best][p], latencies.seconds[best][p]});
    }
  }
  report.noise = regret_of(noise);
  for (const Strategy& strategy : strategies) {
    internal_check(strategy.tables.size() == fresh.size(), "a strategy has a table for every region");
    StrategyRegret& own = report.strategies.emplace_back(StrategyRegret{strategy.name, strategy.kernels, 0, {}});
    std::vector<Paid> paid;
    for (std::size_t r = 0; r < fresh.size(); ++r) {
      const RegionLatencies& latencies = fresh[r].latencies;
      for (std::size_t p = 0; p < latencies.points.size(); ++p) {
        const std::size_t row = entry_at(strategy.tables[r], latencies.points[p]);
        internal_check(row < strategy.tables[r].size(), "a table is total");
        const std::size_t candidate = candidate_of(latencies, strategy.tables[r][row]);
        if (candidate == none || std::isinf(latencies.seconds[candidate][p])) {
          throw Error(ErrorKind::Inputs, fmt::format("the table of `{}` picks `{}` for a shape at which it was not timed afresh",
                                                     strategy.name, to_string(strategy.tables[r][row].schedule)));
        }
        paid.push_back({latencies.weights[p], paid_seconds(fresh[r], candidate, p), best_seconds(fresh[r], p)});
        own.expected_seconds += paid.back().weight * paid.back().seconds;
      }
    }
    own.regret = regret_of(paid);
  }
  return report;
}

}  // namespace anydim::tuner
