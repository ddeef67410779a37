// Statistics of noisy timings, apart from any search.
//
// Two things are compared by timing them in turn, so that what slows the machine down for a while
// slows both. Medians are taken because disturbances only ever lengthen a time; the interval is
// that of order statistics, which needs no assumption about how times scatter.
#pragma once

#include <span>
#include <utility>
#include <vector>

namespace anydim::tuner {

double median(std::vector<double> values);  // 0 for none; the mean of the two in the middle

struct Interval95 {
  double low = 0, high = 0;
};
// The median's interval: order statistics whose binomial coverage is 95 % at least (all values
// where there are fewer than six).
Interval95 median_interval(std::vector<double> values);

// The least of the values (each with its weight, not negative) that 99 % of all weight do not
// exceed; 0 for none.
double weighted_percentile_99(std::vector<std::pair<double, double>> values);

// values[i] / other[i], for pairs taken in turn.
std::vector<double> ratios(std::span<const double> values, std::span<const double> other);

}  // namespace anydim::tuner
