#include "tuner/median.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "ir/error.h"

namespace anydim::tuner {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// A change must win more than rounding may feign.
constexpr double worth = 1e-12;
constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

bool holds(std::span<const std::size_t> kept, std::size_t candidate) {
  return std::ranges::find(kept, candidate) != kept.end();
}

std::ptrdiff_t generals_in(const CostMatrix& matrix, std::span<const std::size_t> kept) {
  return std::ranges::count_if(kept,
                               [&](std::size_t candidate) { return matrix.general[candidate]; });
}

// For each point the cheapest and second cheapest of the kept, and who the cheapest is (a position
// in `kept`).
struct Served {
  std::vector<double> first, second;
  std::vector<std::size_t> by;
};

Served serve(const CostMatrix& matrix, std::span<const std::size_t> kept) {
  Served served{std::vector(matrix.points, infinity), std::vector(matrix.points, infinity),
                std::vector(matrix.points, none)};
  for (std::size_t k = 0; k < kept.size(); ++k) {
    for (std::size_t p = 0; p < matrix.points; ++p) {
      const double cost = matrix.at(kept[k], p);
      if (cost < served.first[p]) {
        served.second[p] = served.first[p];
        served.first[p] = cost;
        served.by[p] = k;
      } else {
        served.second[p] = std::min(served.second[p], cost);
      }
    }
  }
  return served;
}

// Brings in one candidate and takes out one of the kept (or none, where there is room), whichever
// lowers the cost most; false: nothing does. All exchanges of one newcomer cost as much to judge as
// one (Whitaker 1983): what it wins wherever it is cheapest, less what each leaver's points pay.
bool improve(const CostMatrix& matrix, std::vector<std::size_t>& kept, bool room) {
  const Served served = serve(matrix, kept);
  const std::ptrdiff_t generals = generals_in(matrix, kept);
  double total = 0;
  for (const double cost : served.first) total += cost;
  double best_gain = worth * total;
  std::size_t best_in = none, best_out = none;
  std::vector<double> loss(kept.size());
  for (std::size_t in = 0; in < matrix.candidates; ++in) {
    if (holds(kept, in)) continue;
    double gain = 0;
    std::ranges::fill(loss, 0);
    for (std::size_t p = 0; p < matrix.points; ++p) {
      const double cost = matrix.at(in, p);
      if (cost < served.first[p]) gain += served.first[p] - cost;
      else loss[served.by[p]] += std::min(cost, served.second[p]) - served.first[p];
    }
    if (room) {
      if (gain > best_gain) best_gain = gain, best_in = in, best_out = none;
      continue;
    }
    for (std::size_t out = 0; out < kept.size(); ++out) {
      if (matrix.general[kept[out]] && generals == 1 && !matrix.general[in]) continue;
      // Where the newcomer is cheapest nobody pays for a leaver, so `gain` counts whole.
      if (gain - loss[out] > best_gain) best_gain = gain - loss[out], best_in = in, best_out = out;
    }
  }
  if (best_in == none) return false;
  if (best_out == none) kept.push_back(best_in);
  else kept[best_out] = best_in;
  return true;
}

void settle(const CostMatrix& matrix, std::vector<std::size_t>& kept) {
  while (improve(matrix, kept, false)) {
  }
}

std::size_t best_general(const CostMatrix& matrix, std::span<const std::size_t> beside) {
  std::size_t best = none;
  double least = infinity;
  std::vector<std::size_t> kept(beside.begin(), beside.end());
  kept.push_back(0);
  for (std::size_t candidate = 0; candidate < matrix.candidates; ++candidate) {
    if (!matrix.general[candidate]) continue;
    kept.back() = candidate;
    const double cost = cost_of(matrix, kept);
    if (best == none || cost < least) best = candidate, least = cost;
  }
  internal_check(best != none, "a region has a candidate that serves every value");
  return best;
}

// Makes a choice lawful: distinct, one general at least, no more than `most`.
void repair(const CostMatrix& matrix, std::vector<std::size_t>& kept, std::size_t most) {
  std::ranges::sort(kept);
  kept.erase(std::ranges::unique(kept).begin(), kept.end());
  if (generals_in(matrix, kept) == 0) {
    const std::size_t general = best_general(matrix, kept);
    kept.push_back(general);
  }
  while (kept.size() > most) {
    double least = infinity;
    std::size_t out = none;
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (matrix.general[kept[k]] && generals_in(matrix, kept) == 1) continue;
      std::vector<std::size_t> rest = kept;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(k));
      const double cost = cost_of(matrix, rest);
      if (out == none || cost < least) least = cost, out = k;
    }
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(out));
  }
}

// The best partition of the points, in their order, into at most k intervals with one candidate
// each, for k = 1, ..., most.
class IntervalStart {
 public:
  IntervalStart(const CostMatrix& matrix, std::size_t most)
      : points_(matrix.points), cost_(points_ * points_), by_(points_ * points_) {
    for (std::size_t first = 0; first < points_; ++first) {
      std::vector<double> sums(matrix.candidates);
      for (std::size_t last = first; last < points_; ++last) {
        std::size_t best = 0;
        for (std::size_t candidate = 0; candidate < matrix.candidates; ++candidate) {
          sums[candidate] += matrix.at(candidate, last);
          if (sums[candidate] < sums[best]) best = candidate;
        }
        cost_[first * points_ + last] = sums[best];
        by_[first * points_ + last] = best;
      }
    }
    least_.assign(most + 1, std::vector(points_ + 1, infinity));
    from_.assign(most + 1, std::vector<std::size_t>(points_ + 1, 0));
    for (auto& row : least_) row[0] = 0;
    for (std::size_t k = 1; k <= most; ++k) {
      for (std::size_t end = 1; end <= points_; ++end) {
        for (std::size_t begin = 0; begin < end; ++begin) {
          const double cost = least_[k - 1][begin] + cost_[begin * points_ + end - 1];
          if (cost < least_[k][end]) least_[k][end] = cost, from_[k][end] = begin;
        }
      }
    }
  }

  std::vector<std::size_t> candidates(std::size_t k) const {
    std::vector<std::size_t> chosen;
    for (std::size_t end = points_; end > 0; --k) {
      const std::size_t begin = from_[k][end];
      chosen.push_back(by_[begin * points_ + end - 1]);
      end = begin;
    }
    return chosen;
  }

 private:
  std::size_t points_;
  std::vector<double> cost_;     // [first][last]
  std::vector<std::size_t> by_;  // [first][last]
  std::vector<std::vector<double>> least_;
  std::vector<std::vector<std::size_t>> from_;
};

double least_possible(const CostMatrix& matrix) {
  double sum = 0;
  for (std::size_t p = 0; p < matrix.points; ++p) {
    double least = infinity;
    for (std::size_t candidate = 0; candidate < matrix.candidates; ++candidate)
      least = std::min(least, matrix.at(candidate, p));
    sum += least;
  }
  return sum;
}

}  // namespace

double cost_of(const CostMatrix& matrix, std::span<const std::size_t> kept) {
  double sum = 0;
  for (std::size_t p = 0; p < matrix.points; ++p) {
    double least = infinity;
    for (const std::size_t candidate : kept) least = std::min(least, matrix.at(candidate, p));
    sum += least;
  }
  return sum;
}

std::vector<std::vector<std::size_t>> choices_by_count(const CostMatrix& matrix, std::size_t most,
                                                       const Starts& starts) {
  most = std::min(most, matrix.candidates);
  const double floor = least_possible(matrix) * (1 + worth);
  const IntervalStart start(matrix, most);
  std::vector<std::vector<std::size_t>> choices;
  for (std::size_t k = 1; k <= most; ++k) {
    std::vector<std::vector<std::size_t>> offers{start.candidates(k)};
    if (k > 1) offers.push_back(choices.back());
    if (starts) std::ranges::move(starts(k), std::back_inserter(offers));
    std::vector<std::size_t> kept;
    for (std::vector<std::size_t>& offer : offers) {
      repair(matrix, offer, k);
      while (offer.size() < k && improve(matrix, offer, true)) {
      }
      settle(matrix, offer);
      if (kept.empty() || cost_of(matrix, offer) < cost_of(matrix, kept)) kept = std::move(offer);
    }
    std::ranges::sort(kept);
    choices.push_back(std::move(kept));
    if (cost_of(matrix, choices.back()) <= floor) break;
  }
  return choices;
}

std::vector<std::size_t> share_out(const std::vector<std::vector<double>>& costs,
                                   std::size_t most) {
  const std::size_t regions = costs.size();
  // least[r][k]: of the first r regions with k kept in all; chosen[r][k]: what region r - 1 has of
  // them.
  std::vector least(regions + 1, std::vector(most + 1, infinity));
  std::vector chosen(regions + 1, std::vector<std::size_t>(most + 1, 0));
  least[0].assign(most + 1, 0);
  for (std::size_t r = 1; r <= regions; ++r) {
    for (std::size_t k = r; k <= most; ++k) {
      for (std::size_t own = 1; own <= std::min(costs[r - 1].size(), k - (r - 1)); ++own) {
        const double cost = least[r - 1][k - own] + costs[r - 1][own - 1];
        if (cost < least[r][k]) least[r][k] = cost, chosen[r][k] = own;
      }
    }
  }
  std::vector<std::size_t> shares(regions);
  for (std::size_t r = regions, k = most; r > 0; --r) {
    shares[r - 1] = chosen[r][k];
    k -= shares[r - 1];
  }
  return shares;
}

}  // namespace anydim::tuner
