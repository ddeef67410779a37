#include "tuner/statistics.h"

#include <algorithm>
#include <cmath>

namespace anydim::tuner {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Interval95 median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t count = values.size();
  // The probability that fewer than k + 1 of the values lie below the median, from the binomial
  // distribution with one half.
  double term = std::pow(0.5, static_cast<double>(count)), tail = 0;
  std::size_t cut = 0;
  for (std::size_t k = 0; k < count / 2; ++k) {
    tail += term;
    if (tail > 0.025) break;
    cut = k + 1;
    term *= static_cast<double>(count - k) / static_cast<double>(k + 1);
  }
  if (cut > 0) --cut;  // the value at `cut` itself belongs to the interval
  return {values[cut], values[count - 1 - cut]};
}

double weighted_percentile_99(std::vector<std::pair<double, double>> values) {
  std::ranges::sort(values);
  double all = 0, reached = 0;
  for (const auto& [value, weight] : values) all += weight;
  for (const auto& [value, weight] : values)
    if ((reached += weight) >= 0.99 * all) return value;
  return values.empty() ? 0 : values.back().first;
}

std::vector<double> ratios(std::span<const double> values, std::span<const double> other) {
  std::vector<double> result;
  for (std::size_t i = 0; i < std::min(values.size(), other.size()); ++i)
    if (other[i] > 0) result.push_back(values[i] / other[i]);
  return result;
}

}  // namespace anydim::tuner
