// Linear least squares with a penalty on the weights.
#pragma once

#include <span>
#include <vector>

namespace anydim::tuner {

// Minimises sum of (y - w . x)^2 + penalty * |w without its first|^2 (Hoerl, Kennard 1970). The
// first feature is the constant 1, which is not penalised. Features are scaled to one standard
// deviation first, so that the penalty means the same to each.
class Ridge {
 public:
  // rows: one feature vector a sample, all of one length. No sample: predicts 0.
  Ridge(std::span<const std::vector<double>> rows, std::span<const double> values, double penalty);
  double predict(std::span<const double> features) const;

 private:
  std::vector<double> weights_;
};

}  // namespace anydim::tuner
