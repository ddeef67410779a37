#include "tuner/regret.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ir/error.h"
#include "tuner/table_builder.h"

namespace anydim::tuner {

namespace {

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
  regret.percentile_99 = weighted_percentile_99(std::move(by_ratio));
  regret.expected_total_interval = {regret.expected_total, regret.expected_total};
  regret.percentile_99_interval = {regret.percentile_99, regret.percentile_99};
  return regret;
}

// The candidate whose time is that of the row: compiled for the same shapes, else the same schedule
// compiled for more.
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

// The rounds of a region's timing, and which of them count: all of them once, or drawn.
using Draw = std::vector<std::size_t>;

const std::vector<std::vector<double>>& round_of(const FreshLatencies& region, std::size_t round) {
  return round == 0 ? region.latencies.seconds : region.again[round - 1];
}

std::size_t rounds_of(const FreshLatencies& region) { return 1 + region.again.size(); }

// Times by the two halves of the rounds drawn; the same where there is one round.
struct Halves {
  std::vector<std::vector<double>> first, second;  // [candidate][point]
};

Halves halves_of(const FreshLatencies& region, const Draw& draw) {
  const auto medians = [&](std::size_t begin) {
    std::vector<std::vector<double>> seconds = region.latencies.seconds;
    std::vector<double> values;
    for (std::size_t c = 0; c < seconds.size(); ++c) {
      for (std::size_t p = 0; p < seconds[c].size(); ++p) {
        values.clear();
        for (std::size_t i = begin; i < draw.size(); i += 2)
          values.push_back(round_of(region, draw[i])[c][p]);
        seconds[c][p] = median(values);
      }
    }
    return seconds;
  };
  Halves halves{.first = medians(0), .second = {}};
  halves.second = draw.size() > 1 ? medians(1) : halves.first;
  return halves;
}

double paid_seconds(const Halves& halves, std::size_t candidate, std::size_t point) {
  return (halves.first[candidate][point] + halves.second[candidate][point]) / 2;
}

double best_seconds(const Halves& halves, std::size_t point) {
  const std::size_t by_first = fastest(halves.first, point);
  const double crossed =
      (halves.second[by_first][point] + halves.first[fastest(halves.second, point)][point]) / 2;
  return std::isinf(crossed) ? halves.first[by_first][point] : crossed;
}

// What the strategies pick at each point of each region: [strategy][region][point].
using Picks = std::vector<std::vector<std::vector<std::size_t>>>;

Picks picks_of(std::span<const FreshLatencies> fresh, std::span<const Strategy> strategies) {
  Picks picks;
  for (const Strategy& strategy : strategies) {
    internal_check(strategy.tables.size() == fresh.size(),
                   "a strategy has a table for every region");
    auto& own = picks.emplace_back(fresh.size());
    for (std::size_t r = 0; r < fresh.size(); ++r) {
      const RegionLatencies& latencies = fresh[r].latencies;
      for (std::size_t p = 0; p < latencies.points.size(); ++p) {
        const std::size_t row = entry_at(strategy.tables[r], latencies.points[p]);
        internal_check(row < strategy.tables[r].size(), "a table is total");
        const std::size_t candidate = candidate_of(latencies, strategy.tables[r][row]);
        if (candidate == none || std::isinf(latencies.seconds[candidate][p])) {
          throw Error(ErrorKind::Inputs,
                      "the table of `{}` picks `{}` for a shape at which it was not timed afresh",
                      strategy.name, to_string(strategy.tables[r][row].schedule));
        }
        own[r].push_back(candidate);
      }
    }
  }
  return picks;
}

// What a strategy pays at every point of every region.
std::vector<Paid> paid_by(std::span<const FreshLatencies> fresh, std::span<const Halves> halves,
                          const std::vector<std::vector<std::size_t>>& picks) {
  std::vector<Paid> paid;
  for (std::size_t r = 0; r < fresh.size(); ++r)
    for (std::size_t p = 0; p < picks[r].size(); ++p)
      paid.push_back({fresh[r].latencies.weights[p], paid_seconds(halves[r], picks[r][p], p),
                      best_seconds(halves[r], p)});
  return paid;
}

double total_of(std::span<const Paid> all) {
  double sum = 0;
  for (const Paid& one : all) sum += one.weight * one.seconds;
  return sum;
}

Draw all_rounds(const FreshLatencies& region) {
  Draw draw(rounds_of(region));
  for (std::size_t i = 0; i < draw.size(); ++i) draw[i] = i;
  return draw;
}

Interval95 middle_95(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {at(0.025), at(0.975)};
}

// Draws rounds with replacement, each half from its own, as often as it takes for an interval.
void add_intervals(std::span<const FreshLatencies> fresh, const Picks& picks,
                   RegretReport& report) {
  constexpr int draws = 200;
  std::mt19937 random(1);
  std::vector<std::vector<double>> totals(picks.size()), tails(picks.size()),
      over_first(picks.size());
  for (int turn = 0; turn < draws; ++turn) {
    std::vector<Halves> halves;
    for (const FreshLatencies& region : fresh) {
      Draw draw = all_rounds(region);
      const std::size_t rounds = draw.size();
      for (std::size_t i = 0; i < rounds; ++i)
        draw[i] = i % 2 + 2 * (random() % ((rounds + 1 - i % 2) / 2));
      halves.push_back(halves_of(region, draw));
    }
    double first = 0;
    for (std::size_t s = 0; s < picks.size(); ++s) {
      const std::vector<Paid> paid = paid_by(fresh, halves, picks[s]);
      const Regret regret = regret_of(paid);
      const double total = total_of(paid);
      if (s == 0) first = total;
      totals[s].push_back(regret.expected_total);
      tails[s].push_back(regret.percentile_99);
      over_first[s].push_back(first > 0 ? total / first : 1);
    }
  }
  for (std::size_t s = 0; s < picks.size(); ++s) {
    report.strategies[s].regret.expected_total_interval = middle_95(totals[s]);
    report.strategies[s].regret.percentile_99_interval = middle_95(tails[s]);
    report.strategies[s].over_first = middle_95(over_first[s]);
  }
}

std::vector<WorstShape> worst_shapes(std::span<const FreshLatencies> fresh,
                                     std::span<const Halves> halves,
                                     const std::vector<std::vector<std::size_t>>& picks) {
  constexpr std::size_t most = 8;
  std::vector<WorstShape> worst;
  double launches = 0;
  for (std::size_t r = 0; r < fresh.size(); ++r) {
    const RegionLatencies& latencies = fresh[r].latencies;
    for (std::size_t p = 0; p < latencies.points.size(); ++p) {
      launches += latencies.weights[p];
      const double best = best_seconds(halves[r], p),
                   paid = paid_seconds(halves[r], picks[r][p], p);
      Halves all{.first = halves[r].first, .second = {}};
      for (std::size_t c = 0; c < all.first.size(); ++c)
        all.first[c][p] = paid_seconds(halves[r], c, p);
      worst.push_back({.region = latencies.region,
                       .keys = latencies.points[p],
                       .chosen = latencies.candidates[picks[r][p]].schedule,
                       .best = latencies.candidates[fastest(all.first, p)].schedule,
                       .over_best = best > 0 ? paid / best - 1 : 0,
                       .share = latencies.weights[p],
                       .seconds = paid});
    }
  }
  for (WorstShape& one : worst) one.share = launches > 0 ? one.share / launches : 0;
  std::ranges::sort(worst, std::ranges::greater(), &WorstShape::over_best);
  if (worst.size() > most) worst.resize(most);
  return worst;
}

}  // namespace

RegionLatencies typical(const FreshLatencies& region) {
  RegionLatencies latencies = region.latencies;
  for (std::size_t c = 0; c < latencies.seconds.size(); ++c) {
    for (std::size_t p = 0; p < latencies.seconds[c].size(); ++p) {
      std::vector<double> values;
      for (std::size_t round = 0; round < rounds_of(region); ++round)
        values.push_back(round_of(region, round)[c][p]);
      latencies.seconds[c][p] = median(std::move(values));
    }
  }
  return latencies;
}

RegretReport regret(std::span<const FreshLatencies> fresh, std::span<const Strategy> strategies) {
  RegretReport report;
  std::vector<Paid> noise;
  std::vector<Halves> halves;
  bool timed_again = !fresh.empty();
  for (const FreshLatencies& region : fresh) {
    halves.push_back(halves_of(region, all_rounds(region)));
    const Halves& own = halves.back();
    for (std::size_t p = 0; p < region.latencies.points.size(); ++p) {
      const std::size_t best = fastest(own.first, p);
      report.best_seconds += region.latencies.weights[p] * best_seconds(own, p);
      if (!region.again.empty())
        noise.push_back({region.latencies.weights[p], own.second[best][p], own.first[best][p]});
    }
    const auto rounds = static_cast<std::int64_t>(rounds_of(region));
    report.rounds = report.rounds == 0 ? rounds : std::min(report.rounds, rounds);
    timed_again = timed_again && rounds > 1;
  }
  report.noise = regret_of(noise);
  const Picks picks = picks_of(fresh, strategies);
  double first = 0;
  for (std::size_t s = 0; s < strategies.size(); ++s) {
    const std::vector<Paid> paid = paid_by(fresh, halves, picks[s]);
    const double total = total_of(paid);
    if (s == 0) first = total;
    const double over_first = first > 0 ? total / first : 1;
    report.strategies.push_back({.name = strategies[s].name,
                                 .kernels = strategies[s].kernels,
                                 .expected_seconds = total,
                                 .regret = regret_of(paid),
                                 .over_first = {over_first, over_first}});
  }
  if (!picks.empty()) report.worst = worst_shapes(fresh, halves, picks[0]);
  if (timed_again) add_intervals(fresh, picks, report);
  return report;
}

}  // namespace anydim::tuner
