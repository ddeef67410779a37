#include "tuner/ridge.h"

#include <cmath>

#include "ir/error.h"

namespace anydim::tuner {

namespace {

// A symmetric positive definite system, row-major, by Cholesky's factorisation in place.
std::vector<double> solve(std::vector<double> matrix, std::vector<double> right) {
  const std::size_t n = right.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k)
      for (std::size_t i = j; i < n; ++i)
        matrix[i * n + j] -= matrix[i * n + k] * matrix[j * n + k];
    const double pivot = std::sqrt(matrix[j * n + j]);
    for (std::size_t i = j; i < n; ++i) matrix[i * n + j] /= pivot;
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) right[i] -= matrix[i * n + k] * right[k];
    right[i] /= matrix[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) right[i] -= matrix[k * n + i] * right[k];
    right[i] /= matrix[i * n + i];
  }
  return right;
}

}  // namespace

Ridge::Ridge(std::span<const std::vector<double>> rows, std::span<const double> values,
             double penalty) {
  if (rows.empty()) return;
  const std::size_t features = rows[0].size();
  std::vector<double> scale(features, 1);
  for (std::size_t f = 1; f < features; ++f) {
    double sum = 0, squares = 0;
    for (const std::vector<double>& row : rows) sum += row[f], squares += row[f] * row[f];
    const auto count = static_cast<double>(rows.size());
    const double variance = squares / count - (sum / count) * (sum / count);
    scale[f] = variance > 1e-12 ? std::sqrt(variance) : 1;
  }
  std::vector<double> matrix(features * features), right(features);
  for (std::size_t f = 0; f < features; ++f) matrix[f * features + f] = f == 0 ? 1e-9 : penalty;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    internal_check(rows[r].size() == features, "samples have equally many features");
    for (std::size_t f = 0; f < features; ++f) {
      const double x = rows[r][f] / scale[f];
      right[f] += x * values[r];
      for (std::size_t g = 0; g < features; ++g)
        matrix[f * features + g] += x * rows[r][g] / scale[g];
    }
  }
  weights_ = solve(std::move(matrix), std::move(right));
  for (std::size_t f = 0; f < features; ++f) weights_[f] /= scale[f];
}

double Ridge::predict(std::span<const double> features) const {
  double value = 0;
  for (std::size_t f = 0; f < weights_.size(); ++f) value += weights_[f] * features[f];
  return value;
}

}  // namespace anydim::tuner
