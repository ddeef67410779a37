#include "api/gpu_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace anydim {

namespace {

// Up to `most` of `count` positions, evenly spread from the first to the last.
std::vector<std::int64_t> spread(std::int64_t count, std::int64_t most) {
  const std::int64_t taken = std::min(count, most);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < taken; ++i)
    positions.push_back(taken == 1 ? 0 : i * (count - 1) / (taken - 1));
  return positions;
}

// The largest difference so far, and what it is measured by.
class Comparison {
 public:
  void add(double got, double want) {
    if (std::isfinite(want)) scale_ = std::max(scale_, std::fabs(want));
    if (got == want || (std::isnan(got) && std::isnan(want))) return;
    const double difference = std::fabs(got - want);
    largest_ = std::isfinite(difference) ? std::max(largest_, difference)
                                         : std::numeric_limits<double>::infinity();
  }
  double result() const { return scale_ > 0 ? largest_ / scale_ : largest_; }

 private:
  double largest_ = 0, scale_ = 0;
};

struct AttentionRow {
  std::int64_t query = 0;             // element at which it begins
  std::int64_t first_key = 0;         // element at which the first key begins
  std::int64_t keys = 0, stride = 0;  // elements from a key to the next
};

void compare_row(Comparison& comparison, const AttentionRow& row, std::int64_t head,
                 std::span<const ir::Tensor> inputs, const ir::Tensor& result) {
  const double scale = attention_scale(head);
  std::vector<double> scores;
  for (std::int64_t key = 0; key < row.keys; ++key) {
    double sum = 0;
    for (std::int64_t d = 0; d < head; ++d)
      sum += inputs[0].real_at(row.query + d) *
             inputs[1].real_at(row.first_key + key * row.stride + d);
    scores.push_back(sum * scale);
  }
  const double most = *std::ranges::max_element(scores);
  double weights = 0;
  std::vector<double> values(static_cast<std::size_t>(head));
  for (std::int64_t key = 0; key < row.keys; ++key) {
    const double weight = std::exp(scores[static_cast<std::size_t>(key)] - most);
    weights += weight;
    for (std::int64_t d = 0; d < head; ++d)
      values[static_cast<std::size_t>(d)] +=
          weight * inputs[2].real_at(row.first_key + key * row.stride + d);
  }
  for (std::int64_t d = 0; d < head; ++d)
    comparison.add(result.real_at(row.query + d), values[static_cast<std::size_t>(d)] / weights);
}

// Row `number` of all rows of all heads: [batch, heads, length, head].
AttentionRow equal_row(const GpuAttention& shape, std::int64_t number) {
  const std::int64_t matrix = number / shape.length;
  return {number * shape.head, matrix * shape.length * shape.head, shape.length, shape.head};
}

// The same of [rows, heads * head], heads running faster than rows.
AttentionRow ragged_row(const GpuAttention& shape, std::int64_t number) {
  const std::int64_t row = number / shape.heads, stride = shape.heads * shape.head;
  std::int64_t first = 0;
  std::size_t sequence = 0;
  while (row >= first + shape.lengths[sequence]) first += shape.lengths[sequence++];
  return {number * shape.head, first * stride + number % shape.heads * shape.head,
          shape.lengths[sequence], stride};
}

}  // namespace

double largest_difference(const ir::Tensor& got, const ir::Tensor& want) {
  if (got.dims() != want.dims()) return std::numeric_limits<double>::infinity();
  Comparison comparison;
  for (std::int64_t i = 0; i < want.elements(); ++i)
    comparison.add(got.real_at(i), want.real_at(i));
  return comparison.result();
}

double product_difference(const ir::Tensor& x, const ir::Tensor& w, const ir::Tensor& bias,
                          const ir::Tensor& y) {
  const std::int64_t k = x.dims().at(1), n = w.dims().at(1);
  Comparison comparison;
  for (const std::int64_t row : spread(x.dims()[0], 8)) {
    for (const std::int64_t column : spread(n, 64)) {
      double sum = bias.real_at(column);
      for (std::int64_t i = 0; i < k; ++i)
        sum += x.real_at(row * k + i) * w.real_at(i * n + column);
      comparison.add(y.real_at(row * n + column), sum);
    }
  }
  return comparison.result();
}

double attention_difference(const GpuAttention& shape, std::span<const ir::Tensor> inputs,
                            const ir::Tensor& result) {
  Comparison comparison;
  for (const std::int64_t number : spread(result.elements() / shape.head, 32))
    compare_row(comparison,
                shape.lengths.empty() ? equal_row(shape, number) : ragged_row(shape, number),
                shape.head, inputs, result);
  return comparison.result();
}

}  // namespace anydim
