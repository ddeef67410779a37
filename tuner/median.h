// The choice behind partition.h, as a matrix: which rows to keep so that the cheapest kept row of
// every column costs least in sum.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace anydim::tuner {

// One region: cost of each point (column) with each candidate (row), weights included; infinity
// where it may not run.
struct CostMatrix {
  std::size_t candidates = 0, points = 0;
  std::vector<double> costs{};  // row-major
  // [candidate] may serve every value of the keys; at least one is kept
  std::vector<bool> general{};
  double at(std::size_t candidate, std::size_t point) const {
    return costs[candidate * points + point];
  }
};

// Sum over points of the least cost among the kept; infinity where a point has none.
double cost_of(const CostMatrix& matrix, std::span<const std::size_t> kept);

// kept[k - 1]: good candidates to keep where k may be, for k = 1, 2, ... until more help nothing
// (at most `most`). Each from the best interval partition of the points in their order, from the
// choice for k - 1 with one more, and from starts(k) (at most k candidates each), all improved by
// swaps until no swap helps.
using Starts = std::function<std::vector<std::vector<std::size_t>>(std::size_t count)>;
std::vector<std::vector<std::size_t>> choices_by_count(const CostMatrix& matrix, std::size_t most,
                                                       const Starts& starts = {});

// How many each region keeps, from costs[region][count - 1], at most `most` in all; exact.
std::vector<std::size_t> share_out(const std::vector<std::vector<double>>& costs, std::size_t most);

// No choice of at most `most` candidates, in every region at least one general, costs less.
// `known`: the cost of a choice, which scales the steps.
double lower_bound(std::span<const CostMatrix> matrices, std::size_t most, double known);

}  // namespace anydim::tuner
