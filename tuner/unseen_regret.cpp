#include "tuner/unseen_regret.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

namespace anydim::tuner {

namespace {

using Clock = std::chrono::steady_clock;
using Times = std::vector<std::vector<double>>;  // [candidate][point]

// As many rounds of timing every finalist as there is time for, and no more than settle what is
// reported.
constexpr std::size_t most_rounds = 12;
constexpr std::size_t fewest_rounds = 6;  // whose intervals say something
constexpr double settled_width = 0.005;   // of the 95 % interval of the 99th percentile

double expected_seconds(const RegionLatencies& latencies) {
  double seconds = 0;
  for (std::size_t p = 0; p < latencies.points.size(); ++p) {
    double least = std::numeric_limits<double>::infinity();
    for (const std::vector<double>& row : latencies.seconds) least = std::min(least, row[p]);
    seconds += latencies.weights[p] * least;
  }
  return seconds;
}

void drop(RegionLatencies& latencies, std::size_t candidate) {
  const auto at = static_cast<std::ptrdiff_t>(candidate);
  latencies.candidates.erase(latencies.candidates.begin() + at);
  if (!latencies.seconds.empty()) latencies.seconds.erase(latencies.seconds.begin() + at);
  if (!latencies.measured.empty()) latencies.measured.erase(latencies.measured.begin() + at);
}

// One region's finalists on the way to the report.
struct Finalists {
  std::size_t region = 0;                // in TuneResult::latencies
  const RegionPoints* points = nullptr;  // unseen
  RegionLatencies seen;                  // what tables are chosen from, finalists only
  FreshLatencies fresh;
  // seconds of the incumbent at each point, as first met: what all ratios are of
  std::vector<double> base;

  std::size_t rounds() const {
    return fresh.latencies.seconds.empty() ? 0 : 1 + fresh.again.size();
  }
};

// What is best at a measured point, kept, or what a usual way picks; the rest is left out as too
// slow to matter.
Finalists finalists_of(const TuneResult& result, std::span<const Strategy> usual,
                       std::size_t region, const RegionPoints& unseen) {
  const RegionLatencies& all = result.latencies[region];
  std::vector<bool> finalist(all.candidates.size());
  for (const std::size_t kept : result.partition.regions[region].candidates) finalist[kept] = true;
  for (std::size_t p = 0; p < all.points.size(); ++p) finalist[fastest(all.seconds, p)] = true;
  for (const Strategy& strategy : usual)
    for (const ir::TunedEntry& row : strategy.tables[region])
      for (std::size_t c = 0; c < finalist.size(); ++c)
        finalist[c] = finalist[c] || all.candidates[c].schedule == row.schedule;
  Finalists one{.region = region,
                .points = &unseen,
                .seen = result.refined[region],
                .fresh = {},
                .base = std::vector<double>(unseen.points.size())};
  for (std::size_t c = finalist.size(); c-- > 0;)
    if (!finalist[c]) drop(one.seen, c);
  one.fresh.latencies = {.region = all.region,
                         .range = all.range,
                         .points = unseen.points,
                         .weights = unseen.weights,
                         .candidates = one.seen.candidates,
                         .seconds = {},
                         .edges = all.edges};
  return one;
}

void drop(std::size_t candidate, Finalists& one) {
  for (Times& seconds : one.fresh.again)
    seconds.erase(seconds.begin() + static_cast<std::ptrdiff_t>(candidate));
  drop(one.fresh.latencies, candidate);
  drop(one.seen, candidate);
}

enum class Round { Done, OutOfTime, Interrupted };

// Times every finalist once.
Round time_once(const TuneDevice& device, const std::function<double()>& seconds_left,
                Finalists& one) {
  Times seconds;
  std::vector<TrialRequest> requests;
  for (const KernelCandidate& candidate : one.fresh.latencies.candidates)
    requests.push_back(request_for(*one.points, candidate.schedule));
  if (device.expect) device.expect(requests);
  for (const TrialRequest& request : requests) {
    if (seconds_left() <= 0) return Round::OutOfTime;
    const std::optional<Trial> trial = device.measure(request);
    if (!trial) return Round::Interrupted;
    std::vector<double>& row =
        seconds.emplace_back(one.base.size(), std::numeric_limits<double>::infinity());
    if (trial->outcome != Outcome::Ok) continue;
    for (std::size_t p = 0; p < row.size(); ++p) {
      if (one.base[p] == 0) one.base[p] = trial->points[p].incumbent_seconds;
      row[p] = trial->points[p].ratio * one.base[p];
    }
  }
  if (one.rounds() == 0) one.fresh.latencies.seconds = std::move(seconds);
  else one.fresh.again.push_back(std::move(seconds));
  return Round::Done;
}

// One that fails now is no choice any more. False: the table needs it, nothing can be said of the
// region.
bool drop_failures(std::span<const ir::TunedEntry> table, Finalists& one) {
  for (std::size_t c = one.fresh.latencies.candidates.size(); c-- > 0;) {
    const auto failed = [&](const Times& seconds) { return !std::isfinite(seconds[c][0]); };
    if (!failed(one.fresh.latencies.seconds) && std::ranges::none_of(one.fresh.again, failed))
      continue;
    if (std::ranges::find(table, one.fresh.latencies.candidates[c].schedule,
                          &ir::TunedEntry::schedule) != table.end())
      return false;
    drop(c, one);
  }
  return true;
}

// Tuned tables first, then the usual ways.
std::vector<Strategy> strategies_of(const TuneResult& result, std::span<const Finalists> timed,
                                    std::int64_t most_kernels) {
  std::vector<RegionLatencies> seen, unseen;
  Strategy tuned{.name = "tuned", .kernels = result.partition.kernels, .tables = {}};
  for (const Finalists& one : timed) {
    seen.push_back(one.seen);
    unseen.push_back(typical(one.fresh));
    tuned.tables.push_back(result.partition.regions[one.region].entries);
  }
  std::vector<Strategy> strategies = usual_strategies(seen, unseen, most_kernels);
  strategies.insert(strategies.begin(), std::move(tuned));
  return strategies;
}

RegretReport report_of(const TuneSubject& subject, const TuneResult& result,
                       std::span<const Finalists> timed, std::span<const Strategy> strategies) {
  std::vector<FreshLatencies> fresh;
  for (const Finalists& one : timed) fresh.push_back(one.fresh);
  RegretReport report = regret(fresh, strategies);
  for (WorstShape& shape : report.worst)
    for (const Finalists& one : timed)
      if (one.fresh.latencies.region == shape.region) {
        shape.region = kernel_of(subject, result.kernels[one.region]).region.name;
        break;
      }
  return report;
}

// What nobody picks and is far from the best everywhere needs no more rounds.
void drop_hopeless(std::span<const Strategy> strategies, std::vector<Finalists>& timed) {
  constexpr double far = 1.05;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    Finalists& one = timed[i];
    const RegionLatencies times = typical(one.fresh);
    const auto picked = [&](const ir::Schedule& schedule) {
      return std::ranges::any_of(strategies, [&](const Strategy& strategy) {
        return std::ranges::find(strategy.tables[i], schedule, &ir::TunedEntry::schedule) !=
               strategy.tables[i].end();
      });
    };
    const auto near = [&](std::size_t candidate, std::size_t point) {
      return times.seconds[candidate][point] <=
             far * times.seconds[fastest(times.seconds, point)][point];
    };
    for (std::size_t c = times.candidates.size(); c-- > 0;) {
      bool worth = picked(times.candidates[c].schedule);
      for (std::size_t p = 0; p < times.points.size(); ++p) worth = worth || near(c, p);
      if (!worth) drop(c, one);
    }
  }
}

}  // namespace

void measure_regret(const TuneSubject& subject, const Observed& unseen, const TuneRules& rules,
                    const TuneDevice& device, const std::function<double()>& seconds_left,
                    TuneResult& result) {
  const KeyPoints points = choose_points(unseen.workload, unseen.launches, unseen.work,
                                         rules.unseen_calls, unseen.runnable);
  if (device.prepare) device.prepare(calls_to_prepare(subject, unseen, points));
  std::vector<std::size_t> order(result.latencies.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::ranges::greater(), [&](std::size_t i) {
    return std::pair(expected_seconds(result.latencies[i]), i);
  });

  // Two rounds of each region, those first where a call spends most.
  double all = 0, covered = 0, took = 0;
  std::vector<Finalists> timed;
  const std::vector<Strategy> usual =
      usual_strategies(result.refined, result.latencies, rules.most_kernels);
  for (const std::size_t i : order) {
    const auto at = std::ranges::find(points.regions, result.kernels[i], &RegionPoints::kernel);
    if (at == points.regions.end()) continue;
    const double expected = expected_seconds(result.latencies[i]);
    all += expected;
    Finalists one = finalists_of(result, usual, i, *at);
    const auto begin = Clock::now();
    for (int round = 0; round < 2; ++round) {
      const Round end = time_once(device, seconds_left, one);
      if (end == Round::Interrupted) return;
      if (end == Round::OutOfTime) break;
    }
    if (one.rounds() < 2 || !drop_failures(result.partition.regions[i].entries, one)) continue;
    took += std::chrono::duration<double>(Clock::now() - begin).count();
    covered += expected;
    timed.push_back(std::move(one));
  }
  if (timed.empty()) return;
  result.regret_share = all > 0 ? covered / all : 1;
  std::vector<Strategy> strategies = strategies_of(result, timed, rules.most_kernels);
  result.regret = report_of(subject, result, timed, strategies);
  drop_hopeless(strategies, timed);
  // Then all of them in turn, two rounds at a time, so that neither half is timed more often.
  for (std::size_t rounds = 2; rounds < most_rounds; rounds += 2) {
    const Interval95& tail = result.regret->strategies[0].regret.percentile_99_interval;
    if ((rounds >= fewest_rounds && tail.high - tail.low < settled_width) || seconds_left() < took)
      return;
    const auto begin = Clock::now();
    std::vector<Finalists> more = timed;  // an unfinished round counts for nothing
    for (int round = 0; round < 2; ++round)
      for (Finalists& one : more)
        if (time_once(device, seconds_left, one) != Round::Done) return;
    for (Finalists& one : more)
      if (!drop_failures(result.partition.regions[one.region].entries, one)) return;
    took = std::chrono::duration<double>(Clock::now() - begin).count();
    timed = std::move(more);
    strategies = strategies_of(result, timed, rules.most_kernels);
    result.regret = report_of(subject, result, timed, strategies);
  }
}

}  // namespace anydim::tuner
