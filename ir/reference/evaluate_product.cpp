#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "ir/reference/evaluate_ops.h"

namespace anydim::ir {
namespace {

// A stack of matrices, row-major. Integers wrap, so they lie as unsigned numbers here.
template <typename Number>
struct Matrices {
  Extents batch;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<Number> elements;

  std::span<const Number> at(std::int64_t offset) const {
    return std::span(elements).subspan(static_cast<std::size_t>(offset),
                                       static_cast<std::size_t>(rows * columns));
  }
};

template <typename Number>
Matrices<Number> matrices_of(const Tensor& tensor) {
  const Extents& dims = tensor.dims();
  Matrices<Number> result{.batch = Extents(dims.begin(), dims.end() - 2),
                          .rows = dims[dims.size() - 2],
                          .columns = dims.back(),
                          .elements = {}};
  if constexpr (std::is_floating_point_v<Number>) {
    result.elements = load_reals(tensor);
  } else {
    result.elements.reserve(static_cast<std::size_t>(element_count(dims)));
    for (std::int64_t i = 0; i < element_count(dims); ++i)
      result.elements.push_back(static_cast<Number>(tensor.integer_at(i)));
  }
  return result;
}

// For every index of the broadcast batch, the element where an operand's matrix begins.
Extents batch_offsets(const Extents& own, const Extents& batch, std::int64_t matrix) {
  const Extents strides = broadcast_strides(own, batch);
  Extents offsets;
  for_each_index(batch, [&](const Extents& index) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
    offsets.push_back(offset * matrix);
  });
  return offsets;
}

// Adds up each element's products in order of depth. Blocks of the right operand stay in the caches
// while all rows meet them: tuning holds whole layers of networks against this.
template <typename Number>
void multiply(std::span<const Number> left, std::span<const Number> right, std::int64_t rows,
              std::int64_t depth, std::int64_t columns, Number* result) {
  constexpr std::int64_t block_depth = 64, block_columns = 512, together = 4;
  for (std::int64_t first = 0; first < columns; first += block_columns) {
    const std::int64_t width = std::min(block_columns, columns - first);
    for (std::int64_t begin = 0; begin < depth; begin += block_depth) {
      const std::int64_t end = std::min(begin + block_depth, depth);
      for (std::int64_t i = 0; i < rows; ++i) {
        Number* row = result + i * columns + first;
        const Number* factors = left.data() + i * depth;
        const Number* from = right.data() + begin * columns + first;
        std::int64_t k = begin;
        for (; k + together <= end; k += together, from += together * columns)
          for (std::int64_t j = 0; j < width; ++j)
            row[j] = row[j] + factors[k] * from[j] + factors[k + 1] * from[columns + j] +
                     factors[k + 2] * from[2 * columns + j] +
                     factors[k + 3] * from[3 * columns + j];
        for (; k < end; ++k, from += columns)
          for (std::int64_t j = 0; j < width; ++j) row[j] += factors[k] * from[j];
      }
    }
  }
}

// The products of the matrices that meet where two stacks are broadcast to `batch`.
template <typename Number>
std::vector<Number> products(const Tensor& left, const Tensor& right, const Extents& batch,
                             std::int64_t count) {
  const auto a = matrices_of<Number>(left), b = matrices_of<Number>(right);
  const Extents left_offsets = batch_offsets(a.batch, batch, a.rows * a.columns);
  const Extents right_offsets = batch_offsets(b.batch, batch, b.rows * b.columns);
  std::vector<Number> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < left_offsets.size(); ++i) {
    multiply(a.at(left_offsets[i]), b.at(right_offsets[i]), a.rows, a.columns, b.columns,
             result.data() + static_cast<std::int64_t>(i) * a.rows * b.columns);
  }
  return result;
}

template <typename Number>
Tensor integer_products(const Tensor& left, const Tensor& right, const Extents& batch,
                        Extents dims) {
  Tensor result(left.dtype(), std::move(dims));
  std::int64_t next = 0;
  for (const Number product : products<Number>(left, right, batch, element_count(result.dims())))
    result.set_integer(next++, static_cast<std::int64_t>(product));
  return result;
}

void softmax_row(std::span<double> row, std::size_t stride, std::size_t count, bool logarithm) {
  double highest = -INFINITY;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = row[i * stride];
    if (!(x <= highest)) highest = x;  // also takes a NaN, which then spreads
  }
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::exp(row[i * stride] - highest);
  for (std::size_t i = 0; i < count; ++i) {
    double& x = row[i * stride];
    x = logarithm ? x - highest - std::log(sum) : std::exp(x - highest) / sum;
  }
}

std::int64_t count(std::span<const std::int64_t> dims) {
  return element_count(Extents(dims.begin(), dims.end()));
}

// Fails unless `dims` broadcasts to `target` without changing it.
void expect_expands(const OpCall& call, std::size_t operand, const Extents& target) {
  const Extents& dims = call.operand(operand).dims();
  const std::size_t ahead = target.size() < dims.size() ? 0 : target.size() - dims.size();
  if (dims.size() > target.size())
    call.fail("operand {}: expected rank {} or less, got {}", operand, target.size(), dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1 && dims[i] != target[ahead + i]) {
      call.fail("dimension {} of operand {}: expected {} or 1, got {}", i, operand,
                target[ahead + i], dims[i]);
    }
  }
}

}  // namespace

Results evaluate_matmul(const OpCall& call) {
  Tensor left = call.operand(0);
  Tensor right = call.operand(1);
  if (left.rank() == 0 || right.rank() == 0) call.fail("operands of rank 0 have no product");
  const bool row_vector = left.rank() == 1;
  const bool column_vector = right.rank() == 1;
  if (row_vector) left = with_dims(call, left, {1, left.dims()[0]});
  if (column_vector) right = with_dims(call, right, {right.dims()[0], 1});
  const std::int64_t depth = left.dims().back();
  const std::int64_t given = right.dims()[right.rank() - 2];
  if (given != depth) {
    call.fail("dimension {} of operand 1: expected {}, got {}",
              column_vector ? 0 : right.rank() - 2, depth, given);
  }
  const Extents batch = broadcast_extents(call, {left.dims().begin(), left.dims().end() - 2},
                                          {right.dims().begin(), right.dims().end() - 2});
  const std::int64_t rows = left.dims()[left.rank() - 2];
  const std::int64_t columns = right.dims().back();
  Extents dims = batch;
  if (!row_vector) dims.push_back(rows);
  if (!column_vector) dims.push_back(columns);
  if (is_float(left.dtype())) {
    const std::int64_t count = element_count(dims);
    return store_reals(left.dtype(), std::move(dims), products<double>(left, right, batch, count));
  }
  // The low bits of sums and products depend on the low bits of what goes in alone.
  return size_of(left.dtype()) <= sizeof(std::uint32_t)
             ? integer_products<std::uint32_t>(left, right, batch, std::move(dims))
             : integer_products<std::uint64_t>(left, right, batch, std::move(dims));
}

Results evaluate_softmax(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), source.rank());
  const std::span<const std::int64_t> dims(source.dims());
  const auto extent = static_cast<std::size_t>(dims[axis]);
  const auto inner = static_cast<std::size_t>(count(dims.subspan(axis + 1)));
  const auto outer = static_cast<std::size_t>(count(dims.first(axis)));
  std::vector<double> elements = load_reals(source);
  if (elements.empty()) return source;
  for (std::size_t i = 0; i < outer; ++i) {
    for (std::size_t j = 0; j < inner; ++j) {
      softmax_row(std::span(elements).subspan(i * extent * inner + j), inner, extent,
                  call.binding.op == Op::log_softmax);
    }
  }
  return store_reals(source.dtype(), source.dims(), elements);
}

Results evaluate_layer_norm(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), source.rank());
  const double epsilon = real_attribute(call.binding, "epsilon");
  const Extents normalised(source.dims().begin() + static_cast<std::ptrdiff_t>(axis),
                           source.dims().end());
  const auto extent = static_cast<std::size_t>(element_count(normalised));
  std::vector<std::vector<double>> affine;  // scale, bias
  for (std::size_t operand = 1; operand < 3; ++operand) {
    if (!call.has(operand)) {
      affine.emplace_back(extent, operand == 1 ? 1.0 : 0.0);
      continue;
    }
    expect_expands(call, operand, normalised);
    const Tensor& tensor = call.operand(operand);
    affine.push_back(
        load_reals(strided_copy(tensor, normalised, broadcast_strides(tensor.dims(), normalised))));
  }
  std::vector<double> elements = load_reals(source);
  if (elements.empty()) return source;
  for (std::size_t first = 0; first < elements.size(); first += extent) {
    const std::span<double> row = std::span(elements).subspan(first, extent);
    double mean = 0;
    for (const double x : row) mean += x;
    mean /= static_cast<double>(extent);
    double variance = 0;
    for (const double x : row) variance += (x - mean) * (x - mean);
    variance /= static_cast<double>(extent);
    const double inverse = 1.0 / std::sqrt(variance + epsilon);
    for (std::size_t i = 0; i < extent; ++i)
      row[i] = (row[i] - mean) * inverse * affine[0][i] + affine[1][i];
  }
  return store_reals(source.dtype(), source.dims(), elements);
}

Results evaluate_attention(const OpCall& call) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (call.operand(i).rank() < 2)
      call.fail("operand {}: expected rank 2 or more, got {}", i, call.operand(i).rank());
  }
  const auto query = matrices_of<double>(call.operand(0));
  const auto key = matrices_of<double>(call.operand(1));
  const auto value = matrices_of<double>(call.operand(2));
  if (key.columns != query.columns) {
    call.fail("dimension {} of operand 1: expected {}, got {}", key.batch.size() + 1, query.columns,
              key.columns);
  }
  if (value.rows != key.rows) {
    call.fail("dimension {} of operand 2: expected {}, got {}", value.batch.size(), key.rows,
              value.rows);
  }
  const Extents batch =
      broadcast_extents(call, broadcast_extents(call, query.batch, key.batch), value.batch);
  Extents scores_dims = batch;
  scores_dims.insert(scores_dims.end(), {query.rows, key.rows});
  std::vector<double> scores(static_cast<std::size_t>(element_count(scores_dims)), 0.0);
  std::optional<Tensor> chosen;  // where scores stand, of a bias of bools
  if (call.has(3)) {
    expect_expands(call, 3, scores_dims);
    const Tensor& bias = call.operand(3);
    Tensor wide = strided_copy(bias, scores_dims, broadcast_strides(bias.dims(), scores_dims));
    if (bias.dtype() == DType::Bool) chosen = std::move(wide);
    else scores = load_reals(wide);
  }
  const double fill =
      store_reals(call.operand(0).dtype(), {}, std::vector{real_attribute(call.binding, "fill")})
          .real_at(0);
  // The keys that each row sees: the first, and how many.
  std::vector<std::pair<std::int64_t, std::int64_t>> seen(static_cast<std::size_t>(query.rows),
                                                          {0, key.rows});
  if (call.has(4)) {
    if (key.rows != query.rows)
      call.fail("dimension {} of operand 1: expected {}, got {}", key.batch.size(), query.rows,
                key.rows);
    const Extents offsets = segment_offsets(call, 4, query.rows);
    if (call.has(5)) check_work(call, 5, offsets);
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
      for (std::int64_t i = offsets[s]; i < offsets[s + 1]; ++i)
        seen[static_cast<std::size_t>(i)] = {offsets[s], offsets[s + 1] - offsets[s]};
  }
  const double scale = real_attribute(call.binding, "scale"),
               softcap = real_attribute(call.binding, "softcap");
  const bool zero_nan = integer_attribute(call.binding, "zero_nan") != 0;
  const Extents query_offsets = batch_offsets(query.batch, batch, query.rows * query.columns);
  const Extents key_offsets = batch_offsets(key.batch, batch, key.rows * key.columns);
  const Extents value_offsets = batch_offsets(value.batch, batch, value.rows * value.columns);
  Extents dims = batch;
  dims.insert(dims.end(), {query.rows, value.columns});
  std::vector<double> result(static_cast<std::size_t>(element_count(dims)), 0.0);
  for (std::size_t b = 0; b < query_offsets.size(); ++b) {
    const std::span<const double> q = query.at(query_offsets[b]);
    const std::span<const double> k = key.at(key_offsets[b]);
    for (std::int64_t i = 0; i < query.rows; ++i) {
      const std::size_t first =
          (b * static_cast<std::size_t>(query.rows) + static_cast<std::size_t>(i)) *
          static_cast<std::size_t>(key.rows);
      const std::span<double> row =
          std::span(scores).subspan(first, static_cast<std::size_t>(key.rows));
      for (std::int64_t j = 0; j < key.rows; ++j) {
        double product = 0;
        for (std::int64_t d = 0; d < query.columns; ++d) {
          product += q[static_cast<std::size_t>(i * query.columns + d)] *
                     k[static_cast<std::size_t>(j * key.columns + d)];
        }
        const double score = scale * product;
        row[static_cast<std::size_t>(j)] +=
            softcap == 0 ? score : softcap * std::tanh(score / softcap);
        if (chosen && chosen->integer_at(static_cast<std::int64_t>(first) + j) == 0)
          row[static_cast<std::size_t>(j)] = fill;
      }
      const auto& [first_key, keys] = seen[static_cast<std::size_t>(i)];
      const std::span<double> weights =
          row.subspan(static_cast<std::size_t>(first_key), static_cast<std::size_t>(keys));
      softmax_row(weights, 1, weights.size(), false);
      if (zero_nan)
        std::ranges::replace_if(weights, [](double weight) { return std::isnan(weight); }, 0.0);
      multiply<double>(
          weights,
          value.at(value_offsets[b]).subspan(static_cast<std::size_t>(first_key * value.columns)),
          1, keys, value.columns,
          result.data() + (static_cast<std::int64_t>(b) * query.rows + i) * value.columns);
    }
  }
  return store_reals(call.operand(0).dtype(), std::move(dims), result);
}

}  // namespace anydim::ir
