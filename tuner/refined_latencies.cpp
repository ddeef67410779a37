#include "tuner/refined_latencies.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "tuner/statistics.h"

namespace anydim::tuner {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Shares of the points that tell of these keys: of one key the neighbours below and above, else a
// few of the nearest.
std::vector<std::pair<std::size_t, double>> neighbours(
    const std::vector<std::vector<std::int64_t>>& points, std::span<const std::int64_t> keys) {
  constexpr double nearly_there = 1e-9;
  std::vector<std::pair<double, std::size_t>> by_distance;
  for (std::size_t p = 0; p < points.size(); ++p)
    by_distance.emplace_back(distance(points[p], keys), p);
  std::ranges::sort(by_distance);
  std::vector<std::pair<double, std::size_t>> near;
  if (keys.size() == 1) {
    for (const bool above : {false, true}) {
      const auto found = std::ranges::find_if(
          by_distance, [&](const auto& one) { return (points[one.second][0] > keys[0]) == above; });
      if (found != by_distance.end()) near.push_back(*found);
    }
  } else {
    const std::size_t most = keys.size() + 1;
    near.assign(by_distance.begin(), by_distance.begin() + static_cast<std::ptrdiff_t>(
                                                               std::min(most, by_distance.size())));
  }
  std::vector<std::pair<std::size_t, double>> shares;
  double sum = 0;
  for (const auto& [apart, point] : near) {
    shares.emplace_back(point, 1 / std::max(apart, nearly_there));
    sum += shares.back().second;
  }
  for (auto& [point, share] : shares) share /= sum;
  return shares;
}

double log_mean(std::span<const std::pair<std::size_t, double>> shares,
                const std::function<double(std::size_t point)>& value) {
  double sum = 0;
  for (const auto& [point, share] : shares) sum += share * std::log(value(point));
  return sum;
}

double beyond_belief(double stray) {
  return stray > believed ? stray - believed : stray < -believed ? stray + believed : 0;
}

}  // namespace

double distance(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += std::abs(std::log1p(static_cast<double>(a[i])) - std::log1p(static_cast<double>(b[i])));
  return sum;
}

double interpolated(const std::vector<std::vector<std::int64_t>>& points,
                    std::span<const double> values, std::span<const std::int64_t> keys) {
  return std::exp(
      log_mean(neighbours(points, keys), [&](std::size_t point) { return values[point]; }));
}

RegionLatencies refine(const RegionLatencies& measured, const KeyWeights& sizes,
                       const Estimate& estimate) {
  internal_check(sizes.keys.size() == sizes.weights.size(), "every size has a weight");
  RegionLatencies fine = measured;
  fine.points = sizes.keys;
  fine.weights = sizes.weights;
  const std::size_t candidates = measured.candidates.size();
  fine.seconds.assign(candidates, std::vector<double>(fine.points.size(), infinity));
  fine.measured.assign(candidates, std::vector<bool>(fine.points.size(), false));
  std::vector<std::vector<double>> estimates(candidates);  // at the measured points
  for (std::size_t c = 0; c < candidates; ++c)
    for (const auto& keys : measured.points) estimates[c].push_back(estimate(c, keys));
  for (std::size_t p = 0; p < fine.points.size(); ++p) {
    const std::vector<std::int64_t>& keys = fine.points[p];
    const auto own = std::ranges::find(measured.points, keys);
    if (own != measured.points.end()) {
      const auto at = static_cast<std::size_t>(own - measured.points.begin());
      for (std::size_t c = 0; c < candidates; ++c) {
        fine.seconds[c][p] = measured.seconds[c][at];
        fine.measured[c][p] = !measured.measured.empty() && measured.measured[c][at];
      }
      continue;
    }
    const std::vector<std::pair<std::size_t, double>> shares = neighbours(measured.points, keys);
    std::vector<double> strays(candidates);
    for (std::size_t c = 0; c < candidates; ++c)
      strays[c] = std::log(estimate(c, keys)) -
                  log_mean(shares, [&](std::size_t point) { return estimates[c][point]; });
    const double shared = median(strays);
    for (std::size_t c = 0; c < candidates; ++c) {
      const double line =
          log_mean(shares, [&](std::size_t point) { return measured.seconds[c][point]; });
      fine.seconds[c][p] = std::exp(line + shared + beyond_belief(strays[c] - shared));
    }
  }
  return fine;
}

}  // namespace anydim::tuner
