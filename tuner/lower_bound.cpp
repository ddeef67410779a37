// Lagrangian bound of the choice of kernels.
//
// Each point must be served once; a price u[point] for every point takes the place of that demand.
// At given prices a candidate is worth the sum over points of min(0, cost - u), and the cheapest
// lawful choice is read off: in each region the general candidate worth most, then the rest of the
// budget on whatever is worth most anywhere. That choice's worth plus the sum of prices is a lower
// bound at any prices; subgradient steps raise it.
#include <algorithm>
#include <limits>

#include "tuner/median.h"

namespace anydim::tuner {

namespace {

constexpr int steps = 400;
constexpr int patience = 15;
constexpr double close_enough = 1e-7;  // share of the known cost
constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

struct Candidate {
  std::size_t region = 0, candidate = 0;
  double worth = 0;
};

class Prices {
 public:
  Prices(std::span<const CostMatrix> matrices, std::size_t most)
      : matrices_(matrices), most_(most) {
    for (const CostMatrix& matrix : matrices) {
      // A start that costs nothing: what the cheapest candidate takes.
      std::vector<double>& prices =
          prices_.emplace_back(matrix.points, std::numeric_limits<double>::infinity());
      for (std::size_t c = 0; c < matrix.candidates; ++c)
        for (std::size_t p = 0; p < matrix.points; ++p)
          prices[p] = std::min(prices[p], matrix.at(c, p));
    }
  }

  double bound() {
    double sum = 0;
    chosen_.clear();
    std::vector<Candidate> rest;
    for (std::size_t r = 0; r < matrices_.size(); ++r) {
      const CostMatrix& matrix = matrices_[r];
      for (const double price : prices_[r]) sum += price;
      std::vector<double> worths(matrix.candidates);
      std::size_t kept = none;
      for (std::size_t c = 0; c < matrix.candidates; ++c) {
        for (std::size_t p = 0; p < matrix.points; ++p)
          worths[c] += std::min(0.0, matrix.at(c, p) - prices_[r][p]);
        if (matrix.general[c] && (kept == none || worths[c] < worths[kept])) kept = c;
      }
      chosen_.push_back({r, kept, worths[kept]});
      for (std::size_t c = 0; c < matrix.candidates; ++c)
        if (c != kept && worths[c] < 0) rest.push_back({r, c, worths[c]});
    }
    const std::size_t free = std::min(most_ - matrices_.size(), rest.size());
    std::ranges::partial_sort(rest, rest.begin() + static_cast<std::ptrdiff_t>(free), {},
                              &Candidate::worth);
    chosen_.insert(chosen_.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(free));
    for (const Candidate& one : chosen_) sum += one.worth;
    return sum;
  }

  // Towards serving every point once: points that nobody serves at these prices offer more, those
  // served twice less. False: each is served once.
  bool step(double length) {
    double square = 0;
    std::vector<std::vector<double>> demand;
    for (std::size_t r = 0; r < matrices_.size(); ++r)
      demand.emplace_back(matrices_[r].points, 1.0);
    for (const Candidate& one : chosen_)
      for (std::size_t p = 0; p < matrices_[one.region].points; ++p)
        if (matrices_[one.region].at(one.candidate, p) < prices_[one.region][p])
          demand[one.region][p] -= 1;
    for (const auto& region : demand)
      for (const double amount : region) square += amount * amount;
    if (square == 0) return false;
    for (std::size_t r = 0; r < demand.size(); ++r)
      for (std::size_t p = 0; p < demand[r].size(); ++p)
        prices_[r][p] += length / square * demand[r][p];
    return true;
  }

 private:
  std::span<const CostMatrix> matrices_;
  std::size_t most_;
  std::vector<std::vector<double>> prices_;
  std::vector<Candidate> chosen_;
};

}  // namespace

double lower_bound(std::span<const CostMatrix> matrices, std::size_t most, double known) {
  Prices prices(matrices, most);
  double best = prices.bound();
  double eagerness = 1;
  for (int turn = 0, stale = 0; turn < steps && known - best > close_enough * known; ++turn) {
    if (!prices.step(eagerness * (known - best))) break;
    const double bound = prices.bound();
    stale = bound > best ? 0 : stale + 1;
    best = std::max(best, bound);
    if (stale >= patience) eagerness /= 2, stale = 0;
  }
  return std::min(best, known);
}

}  // namespace anydim::tuner
