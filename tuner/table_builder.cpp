#include "tuner/table_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "ir/error.h"

namespace anydim::tuner {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
// Points that no call is expected to have still count a little, so that they get a kernel that
// suits them.
constexpr double least_share = 1e-9;

std::vector<std::int64_t> multiples_of(const RegionLatencies& latencies, std::size_t candidate) {
  const std::vector<std::int64_t>& own = latencies.candidates[candidate].multiples;
  return own.empty() ? std::vector<std::int64_t>(latencies.range.intervals.size(), 1) : own;
}

struct Box {
  std::vector<ir::BucketInterval> intervals;
  std::vector<std::size_t> points;
  std::size_t candidate = none;  // none: rows further below serve better
  double cost = 0, ideal = 0;    // of its points with the candidate, and each with its best
};

struct Cut {
  std::size_t key = 0;
  std::int64_t edge = 0;  // the first value above
  double gain = 0;
};

// Boxes of one class of multiples.
class BoxCutter {
 public:
  // `below`: seconds at each point of what rows further below give; infinity in the last class.
  BoxCutter(const RegionLatencies& latencies, std::vector<std::size_t> candidates,
            std::span<const double> weights, std::vector<double> below,
            std::vector<std::int64_t> multiples)
      : latencies_(latencies), candidates_(std::move(candidates)), weights_(weights),
        below_(std::move(below)), multiples_(std::move(multiples)) {}

  std::vector<Box> cut(std::vector<std::size_t> points, std::size_t most) {
    Box whole{latencies_.range.intervals, std::move(points)};
    for (std::size_t key = 0; key < whole.intervals.size(); ++key)
      whole.intervals[key].multiple = std::lcm(whole.intervals[key].multiple, multiples_[key]);
    decide(whole);
    std::vector<Box> boxes{std::move(whole)};
    std::vector<std::optional<Cut>> cuts{best_cut(boxes[0])};
    while (boxes.size() < most) {
      std::size_t chosen = none;
      for (std::size_t b = 0; b < boxes.size(); ++b)
        if (cuts[b] && (chosen == none || cuts[b]->gain > cuts[chosen]->gain)) chosen = b;
      if (chosen == none) break;
      auto [low, high] = split(boxes[chosen], *cuts[chosen]);
      boxes[chosen] = std::move(low);
      boxes.push_back(std::move(high));
      cuts[chosen] = best_cut(boxes[chosen]);
      cuts.push_back(best_cut(boxes.back()));
    }
    return boxes;
  }

 private:
  double seconds(std::size_t candidate, std::size_t point) const {
    return candidate == none ? below_[point] : latencies_.seconds[candidate][point];
  }

  void decide(Box& box) const {
    box.ideal = 0;
    for (const std::size_t point : box.points) {
      double least = below_[point];
      for (const std::size_t candidate : candidates_)
        least = std::min(least, seconds(candidate, point));
      box.ideal += weights_[point] * least;
    }
    box.candidate = none;
    box.cost = cost(none, box.points);
    for (const std::size_t candidate : candidates_) {
      const double own = cost(candidate, box.points);
      if (own < box.cost) box.cost = own, box.candidate = candidate;
    }
  }

  double cost(std::size_t candidate, std::span<const std::size_t> points) const {
    double sum = 0;
    for (const std::size_t point : points) sum += weights_[point] * seconds(candidate, point);
    return sum;
  }

  // The least cost of the points sorted by a key, from the front: [i] for the first i of them.
  std::vector<double> running_least(const std::vector<std::size_t>& sorted, bool backwards) const {
    std::vector<double> least(sorted.size() + 1, infinity);
    std::vector<std::size_t> offers = candidates_;
    offers.push_back(none);
    least[0] = 0;
    for (const std::size_t candidate : offers) {
      double sum = 0;
      for (std::size_t i = 0; i < sorted.size(); ++i) {
        const std::size_t point = sorted[backwards ? sorted.size() - 1 - i : i];
        sum += weights_[point] * seconds(candidate, point);
        least[i + 1] = std::min(least[i + 1], sum);
      }
    }
    return least;
  }

  // Nothing where one kernel is best at every point of the box, or the points cannot be told apart.
  std::optional<Cut> best_cut(const Box& box) const {
    if (!(box.ideal < box.cost)) return std::nullopt;
    std::optional<Cut> best;
    std::optional<Cut> middle;  // where no single cut helps, two may
    std::size_t widest = 1;
    for (std::size_t key = 0; key < box.intervals.size(); ++key) {
      std::vector<std::size_t> sorted = box.points;
      const auto value = [&](std::size_t point) { return latencies_.points[point][key]; };
      std::ranges::sort(sorted, {}, value);
      const std::vector<double> front = running_least(sorted, false),
                                back = running_least(sorted, true);
      std::vector<std::size_t> steps;
      for (std::size_t i = 1; i < sorted.size(); ++i) {
        if (value(sorted[i - 1]) == value(sorted[i])) continue;
        steps.push_back(i);
        const double gain = box.cost - front[i] - back[sorted.size() - i];
        if (gain > 0 && (!best || gain > best->gain))
          best = Cut{key, edge_between(key, value(sorted[i - 1]), value(sorted[i])), gain};
      }
      if (steps.size() + 1 > widest) {
        widest = steps.size() + 1;
        const std::size_t i = steps[steps.size() / 2];
        middle = Cut{key, edge_between(key, value(sorted[i - 1]), value(sorted[i])), 0};
      }
    }
    return best ? best : middle;
  }

  std::int64_t edge_between(std::size_t key, std::int64_t low, std::int64_t high) const {
    if (key < latencies_.edges.size()) {
      const auto edge = std::ranges::upper_bound(latencies_.edges[key], low);
      if (edge != latencies_.edges[key].end() && *edge <= high) return *edge;
    }
    return high;
  }

  std::pair<Box, Box> split(const Box& box, const Cut& cut) const {
    Box low{box.intervals, {}}, high{box.intervals, {}};
    low.intervals[cut.key].high = cut.edge - 1;
    high.intervals[cut.key].low = cut.edge;
    for (const std::size_t point : box.points)
      (latencies_.points[point][cut.key] < cut.edge ? low : high).points.push_back(point);
    decide(low);
    decide(high);
    return {std::move(low), std::move(high)};
  }

  const RegionLatencies& latencies_;
  std::vector<std::size_t> candidates_;
  std::span<const double> weights_;
  std::vector<double> below_;
  std::vector<std::int64_t> multiples_;
};

void merge_neighbours(std::vector<Box>& boxes, std::size_t keys) {
  const auto joins = [&](const Box& a, const Box& b, std::size_t key) {
    if (a.candidate != b.candidate || a.intervals[key].high + 1 != b.intervals[key].low)
      return false;
    for (std::size_t i = 0; i < keys; ++i)
      if (i != key && !(a.intervals[i] == b.intervals[i])) return false;
    return true;
  };
  for (bool merged = true; merged;) {
    merged = false;
    for (std::size_t key = 0; key < keys; ++key)
      for (std::size_t i = 0; i < boxes.size(); ++i)
        for (std::size_t j = 0; j < boxes.size(); ++j) {
          if (i == j || !joins(boxes[i], boxes[j], key)) continue;
          boxes[i].intervals[key].high = boxes[j].intervals[key].high;
          boxes[i].points.insert(boxes[i].points.end(), boxes[j].points.begin(),
                                 boxes[j].points.end());
          boxes.erase(boxes.begin() + static_cast<std::ptrdiff_t>(j));
          if (j < i) --i;
          merged = true;
          j = 0;
        }
  }
}

ir::TunedEntry row_of(const RegionLatencies& latencies, std::size_t candidate, ir::Bucket bucket,
                      std::span<const std::size_t> points, std::span<const double> weights) {
  ir::TunedEntry row{.bucket = std::move(bucket),
                     .kernel = kernel_bucket(latencies, candidate),
                     .schedule = latencies.candidates[candidate].schedule};
  double weight = 0, sum = 0;
  // Measured anywhere: what lies between is told from there.
  row.measured =
      !latencies.measured.empty() &&
      std::ranges::find(latencies.measured[candidate], true) != latencies.measured[candidate].end();
  for (const std::size_t point : points) {
    if (std::isinf(latencies.seconds[candidate][point])) continue;
    weight += weights[point];
    sum += weights[point] * latencies.seconds[candidate][point];
  }
  row.seconds = weight > 0 ? sum / weight : 0;
  return row;
}

}  // namespace

ir::Bucket kernel_bucket(const RegionLatencies& latencies, std::size_t candidate) {
  ir::Bucket bucket = latencies.range;
  const std::vector<std::int64_t> multiples = multiples_of(latencies, candidate);
  for (std::size_t key = 0; key < bucket.intervals.size(); ++key)
    bucket.intervals[key].multiple = std::lcm(bucket.intervals[key].multiple, multiples[key]);
  return bucket;
}

bool serves(const RegionLatencies& latencies, std::size_t candidate, std::size_t point) {
  return kernel_bucket(latencies, candidate).contains(latencies.points[point]);
}

bool is_general(const RegionLatencies& latencies, std::size_t candidate) {
  return kernel_bucket(latencies, candidate) == latencies.range &&
         std::ranges::none_of(latencies.seconds[candidate],
                              [](double seconds) { return std::isinf(seconds); });
}

std::vector<ir::TunedEntry> build_table(const RegionLatencies& latencies,
                                        std::span<const std::size_t> kept, std::size_t most_rows) {
  std::vector<double> weights = latencies.weights;
  const double least = least_share * std::accumulate(weights.begin(), weights.end(), 1e-300);
  for (double& weight : weights) weight = std::max(weight, least);
  std::vector<std::size_t> all(latencies.points.size());
  std::iota(all.begin(), all.end(), std::size_t{0});

  std::size_t general = none;
  double general_cost = infinity;
  std::set<std::vector<std::int64_t>> classes;
  for (const std::size_t candidate : kept) {
    classes.insert(kernel_bucket(latencies, candidate) == latencies.range
                       ? std::vector<std::int64_t>{}
                       : multiples_of(latencies, candidate));
    if (!is_general(latencies, candidate)) continue;
    double cost = 0;
    for (const std::size_t point : all)
      cost += weights[point] * latencies.seconds[candidate][point];
    if (general == none || cost < general_cost) general = candidate, general_cost = cost;
  }
  internal_check(general != none, "a region keeps a kernel that serves every value");

  // From the last class, which serves any value, to the most special: each sees what lies below.
  std::vector<std::vector<std::int64_t>> order(classes.begin(), classes.end());
  std::ranges::sort(order, {}, [](const std::vector<std::int64_t>& multiples) {
    double size = 0;
    for (const std::int64_t multiple : multiples) size += std::log(static_cast<double>(multiple));
    return std::pair(size, multiples);
  });
  std::vector<double> below = latencies.seconds[general];
  std::vector<ir::TunedEntry> rows{row_of(latencies, general, latencies.range, all, weights)};
  for (const std::vector<std::int64_t>& multiples : order) {
    std::vector<std::size_t> candidates, points;
    for (const std::size_t candidate : kept)
      if (multiples_of(latencies, candidate) == multiples ||
          (multiples.empty() && kernel_bucket(latencies, candidate) == latencies.range))
        if (candidate != general) candidates.push_back(candidate);
    if (candidates.empty()) continue;
    for (const std::size_t point : all)
      if (serves(latencies, candidates[0], point)) points.push_back(point);
    const std::size_t free = most_rows > rows.size() ? most_rows - rows.size() : 1;
    BoxCutter cutter(latencies, candidates, weights, below,
                     multiples.empty()
                         ? std::vector<std::int64_t>(latencies.range.intervals.size(), 1)
                         : multiples);
    std::vector<Box> boxes = cutter.cut(points, free);
    std::erase_if(boxes, [](const Box& box) { return box.candidate == none; });
    merge_neighbours(boxes, latencies.range.intervals.size());
    std::ranges::sort(boxes, {}, [](const Box& box) {
      std::vector<std::int64_t> lows;
      for (const ir::BucketInterval& interval : box.intervals) lows.push_back(interval.low);
      return lows;
    });
    std::vector<ir::TunedEntry> own;
    for (const Box& box : boxes) {
      for (const std::size_t point : box.points)
        below[point] = latencies.seconds[box.candidate][point];
      own.push_back(row_of(latencies, box.candidate, {box.intervals}, box.points, weights));
    }
    rows.insert(rows.begin(), own.begin(), own.end());
  }
  return rows;
}

}  // namespace anydim::tuner
