#include "tuner/unseen_regret.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace anydim::tuner {

namespace {

double expected_seconds(const RegionLatencies& latencies) {
  double seconds = 0;
  for (std::size_t p = 0; p < latencies.points.size(); ++p) {
    double least = std::numeric_limits<double>::infinity();
    for (const std::vector<double>& row : latencies.seconds) least = std::min(least, row[p]);
    seconds += latencies.weights[p] * least;
  }
  return seconds;
}

}  // namespace

void measure_regret(const TuneSubject& subject, const Observed& unseen, const TuneRules& rules, const TuneDevice& device,
                    const std::function<double()>& seconds_left, TuneResult& result) {
  KeyPoints points = choose_points(unseen.workload, unseen.launches, unseen.work, rules.unseen_calls);
  device.prepare(calls_to_prepare(subject, unseen, points));
  std::vector<FreshLatencies> fresh;
  std::vector<RegionLatencies> unseen_latencies;
  Strategy tuned{.name = "tuned", .kernels = result.partition.kernels, .tables = {}};
  std::vector<RegionLatencies> seen;
  std::vector<std::size_t> order(result.latencies.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::ranges::greater(), [&](std::size_t i) { return std::pair(expected_seconds(result.latencies[i]), i); });
  double all = 0, covered = 0;
  for (const std::size_t i : order) {
    const auto at = std::ranges::find(points.regions, result.kernels[i], &RegionPoints::kernel);
    if (at == points.regions.end()) continue;
    const double expected = expected_seconds(result.latencies[i]);
    all += expected;
    if (seconds_left() <= 0) continue;
    FreshLatencies one{.latencies = {.region = result.latencies[i].region,
                                     .range = result.latencies[i].range,
                                     .points = at->points,
                                     .weights = at->weights,
                                     .candidates = result.latencies[i].candidates,
                                     .seconds = {},
                                     .edges = result.latencies[i].edges}};
    // Finalists: what any strategy may pick is best somewhere, kept, or an incumbent; the rest is left out as too slow to matter.
    std::vector<bool> finalist(one.latencies.candidates.size());
    for (const std::size_t kept : result.partition.regions[i].candidates) finalist[kept] = true;
    for (std::size_t p = 0; p < result.latencies[i].points.size(); ++p) {
      std::size_t best = 0;
      for (std::size_t c = 0; c < finalist.size(); ++c)
        if (result.latencies[i].seconds[c][p] < result.latencies[i].seconds[best][p]) best = c;
      finalist[best] = true;
    }
    RegionLatencies kept_seen = result.latencies[i];
    const auto drop = [&](std::size_t c) {
      const auto at_row = static_cast<std::ptrdiff_t>(c);
      one.latencies.candidates.erase(one.latencies.candidates.begin() + at_row);
      kept_seen.candidates.erase(kept_seen.candidates.begin() + at_row);
      kept_seen.seconds.erase(kept_seen.seconds.begin() + at_row);
      if (!kept_seen.measured.empty()) kept_seen.measured.erase(kept_seen.measured.begin() + at_row);
    };
    for (std::size_t c = finalist.size(); c-- > 0;)
      if (!finalist[c]) drop(c);
    std::vector<double> base(at->points.size());
    bool out_of_time = false;
    for (const bool again : {false, true}) {
      std::vector<std::vector<double>>& seconds = again ? one.again : one.latencies.seconds;
      for (const KernelCandidate& candidate : one.latencies.candidates) {
        out_of_time = seconds_left() <= 0;
        if (out_of_time) break;
        const std::optional<Trial> trial = device.measure(request_for(*at, candidate.schedule));
        if (!trial) return;
        std::vector<double>& row = seconds.emplace_back(at->points.size(), std::numeric_limits<double>::infinity());
        if (trial->outcome != Outcome::Ok) continue;
        for (std::size_t p = 0; p < row.size(); ++p) {
          if (base[p] == 0) base[p] = trial->points[p].incumbent_seconds;
          row[p] = trial->points[p].ratio * base[p];
        }
      }
    }
    if (out_of_time) continue;
    // One that fails now is no choice any more; where the table needs it, nothing can be said of the region.
    const std::vector<ir::TunedEntry>& table = result.partition.regions[i].entries;
    bool table_is_timed = true;
    for (std::size_t c = one.again.size(); c-- > 0;) {
      if (std::isfinite(one.latencies.seconds[c][0]) && std::isfinite(one.again[c][0])) continue;
      if (std::ranges::find(table, one.latencies.candidates[c].schedule, &ir::TunedEntry::schedule) != table.end()) table_is_timed = false;
      one.latencies.seconds.erase(one.latencies.seconds.begin() + static_cast<std::ptrdiff_t>(c));
      one.again.erase(one.again.begin() + static_cast<std::ptrdiff_t>(c));
      drop(c);
    }
    if (!table_is_timed) continue;
    covered += expected;
    unseen_latencies.push_back(one.latencies);
    fresh.push_back(std::move(one));
    seen.push_back(std::move(kept_seen));
    tuned.tables.push_back(result.partition.regions[i].entries);
  }
  if (fresh.empty()) return;
  std::vector<Strategy> strategies = usual_strategies(seen, unseen_latencies, rules.most_kernels);
  strategies.insert(strategies.begin(), std::move(tuned));
  result.regret = regret(fresh, strategies);
  result.regret_share = all > 0 ? covered / all : 1;
}

}  // namespace anydim::tuner
