#include "passes/score_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "ir/loops/scalar_access.h"
#include "passes/pattern.h"

namespace anydim::passes {

using namespace ir;

namespace {

struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> elements;
  double& at(std::size_t i, std::size_t j) { return elements[i * columns + j]; }
  double at(std::size_t i, std::size_t j) const { return elements[i * columns + j]; }
};

// Rows z M + b with |z| <= length.
struct Columns {
  Matrix matrix;
  std::vector<double> offset;
  double length = 0;
};

double frobenius(const Matrix& matrix, std::size_t first, std::size_t count) {
  double sum = 0;
  for (std::size_t k = 0; k < matrix.rows; ++k)
    for (std::size_t j = first; j < first + count; ++j) sum += matrix.at(k, j) * matrix.at(k, j);
  return std::sqrt(sum);
}

Matrix gram(const Matrix& matrix, std::size_t first, std::size_t count) {
  Matrix result{count, count, std::vector<double>(count * count, 0.0)};
  for (std::size_t k = 0; k < matrix.rows; ++k)
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j)
        result.at(i, j) += matrix.at(k, first + i) * matrix.at(k, first + j);
  return result;
}

// What operands that are rounded to bfloat16 may add: an eighth bit of each element, and as much
// again of the products' rounding.
constexpr double rounding = 0x1p-7;

// sum of (singular value)^8 = |(M'M)^2| squared, Frobenius: its eighth root is at least the
// largest.
double spectral_norm_at_most(const Matrix& matrix, std::size_t first, std::size_t count) {
  const Matrix once = gram(matrix, first, count);
  return std::sqrt(std::sqrt(frobenius(gram(once, 0, count), 0, count)));
}

class Tracing {
 public:
  Tracing(const Function& function, const Block& block, ElementRanges& ranges)
      : graph_(function, block), ranges_(ranges) {}

  // A bound of a row's norm in any head.
  double head_norm(ValueId value) {
    const double known = ranges_.of(value).row_norm;
    return std::min(known, norm_by_weights(value).value_or(known));
  }

 private:
  std::optional<double> norm_by_weights(ValueId value) {
    const std::optional<std::int64_t> width = graph_.type(value).dims.back().constant();
    std::size_t axis = graph_.type(value).rank() - 1;
    // Views between the heads and the columns that they were cut from; `axis` counts the elements
    // of a head.
    for (const Binding* view = graph_.definition(value); view != nullptr;
         view = graph_.definition(value)) {
      if (view->op == Op::transpose) {
        axis = permutation(*view, graph_.type(value).rank())[axis];
      } else if (!info(view->op).has(traits::reshapes) || axis != graph_.type(value).rank() - 1) {
        break;
      } else {
        axis = graph_.type(view->operands[0]).rank() - 1;
      }
      value = view->operands[0];
      if (!(graph_.type(value).dims[axis].constant() == width)) break;
    }
    if (axis != graph_.type(value).rank() - 1) return std::nullopt;
    const auto columns = columns_of(value);
    if (!columns || !width || *width <= 0) return std::nullopt;
    const auto count = static_cast<std::size_t>(*width);
    if (columns->matrix.columns % count != 0) return std::nullopt;
    double largest = 0;
    for (std::size_t first = 0; first < columns->matrix.columns; first += count) {
      double offset = 0;
      for (std::size_t j = first; j < first + count; ++j)
        offset += columns->offset[j] * columns->offset[j];
      const double gain = spectral_norm_at_most(columns->matrix, first, count) +
                          rounding * frobenius(columns->matrix, first, count);
      largest = std::max(largest, (columns->length * gain + std::sqrt(offset)) * (1 + rounding));
    }
    return largest;
  }

  // Elements of a constant that broadcasts along the last dim alone.
  std::optional<std::vector<double>> row(ValueId value, std::size_t extent) const {
    const Binding* binding = graph_.definition(value);
    if (binding == nullptr || binding->op != Op::constant) return std::nullopt;
    const Tensor& tensor = tensor_attribute(*binding, "value");
    if (!is_float(tensor.dtype())) return std::nullopt;
    const auto elements = static_cast<std::size_t>(tensor.elements());
    if (elements != 1 && (elements != extent || tensor.dims().back() != tensor.elements()))
      return std::nullopt;
    std::vector<double> result;
    for (std::size_t i = 0; i < extent; ++i)
      result.push_back(tensor.real_at(elements == 1 ? 0 : static_cast<std::int64_t>(i)));
    return result;
  }

  std::optional<Columns> columns_of(ValueId value) {
    const Binding* binding = graph_.definition(value);
    if (binding == nullptr || !graph_.type(value).dims.back().is_constant()) return std::nullopt;
    const auto extent = static_cast<std::size_t>(*graph_.type(value).dims.back().constant());
    if (binding->op == Op::add || binding->op == Op::mul) return combined(*binding, extent);
    if (binding->op == Op::split) return split(*binding, value);
    if (binding->op == Op::matmul) return product(*binding);
    return std::nullopt;
  }

  std::optional<Columns> combined(const Binding& binding, std::size_t extent) {
    for (const std::size_t i : {0u, 1u}) {
      const auto constant = row(binding.operands[1 - i], extent);
      if (!constant || !(graph_.type(binding.operands[i]).dims.back() ==
                         graph_.type(binding.results[0]).dims.back()))
        continue;
      auto columns = columns_of(binding.operands[i]);
      if (!columns) return std::nullopt;
      for (std::size_t j = 0; j < extent; ++j) {
        if (binding.op == Op::add) {
          columns->offset[j] += (*constant)[j];
          continue;
        }
        columns->offset[j] *= (*constant)[j];
        for (std::size_t k = 0; k < columns->matrix.rows; ++k)
          columns->matrix.at(k, j) *= (*constant)[j];
      }
      return columns;
    }
    return std::nullopt;
  }

  std::optional<Columns> split(const Binding& binding, ValueId value) {
    const ValueId source = binding.operands[0];
    const std::int64_t axis = integer_attribute(binding, "axis"),
                       rank = static_cast<std::int64_t>(graph_.type(source).rank());
    if (axis != rank - 1 && axis != -1) return std::nullopt;
    std::size_t first = 0;
    for (const ValueId result : binding.results) {
      if (result == value) break;
      const auto extent = graph_.type(result).dims.back().constant();
      if (!extent) return std::nullopt;
      first += static_cast<std::size_t>(*extent);
    }
    const auto all = columns_of(source);
    if (!all) return std::nullopt;
    const auto extent = static_cast<std::size_t>(*graph_.type(value).dims.back().constant());
    const auto begin = all->offset.begin() + static_cast<std::ptrdiff_t>(first);
    Columns columns{{all->matrix.rows, extent, {}},
                    {begin, begin + static_cast<std::ptrdiff_t>(extent)},
                    all->length};
    for (std::size_t k = 0; k < all->matrix.rows; ++k)
      for (std::size_t j = 0; j < extent; ++j)
        columns.matrix.elements.push_back(all->matrix.at(k, first + j));
    return columns;
  }

  // Rows z * gain + shift with |z| <= length.
  struct Rows {
    std::vector<double> gain, shift;
    double length = 0;
  };

  Rows rows_of(ValueId value, std::size_t depth) {
    Rows rows{std::vector<double>(depth, 1.0), std::vector<double>(depth, 0.0)};
    const auto shift_by = [&](const std::vector<double>& added) {
      for (std::size_t k = 0; k < depth; ++k) rows.shift[k] += rows.gain[k] * added[k];
    };
    const auto scale_by = [&](const std::vector<double>& factor) {
      for (std::size_t k = 0; k < depth; ++k) rows.gain[k] *= factor[k];
    };
    for (const Binding* binding = graph_.definition(value); binding != nullptr;
         binding = graph_.definition(value)) {
      if (binding->op == Op::layer_norm && is_over_rows(*binding)) {
        const auto gain = row(binding->operands[1], depth);
        std::optional<std::vector<double>> shift = std::vector<double>(depth, 0.0);
        if (binding->operands.size() > 2 && binding->operands[2] != no_value)
          shift = row(binding->operands[2], depth);
        if (!gain || !shift) break;
        shift_by(*shift);
        scale_by(*gain);
        rows.length = std::sqrt(static_cast<double>(depth));
        return rows;
      }
      if (binding->op != Op::add && binding->op != Op::mul) break;
      const std::size_t at = row(binding->operands[1], depth) ? 1 : 0;
      const auto constant = row(binding->operands[at], depth);
      if (!constant ||
          !(graph_.type(binding->operands[1 - at]).dims.back() == graph_.type(value).dims.back()))
        break;
      if (binding->op == Op::add) shift_by(*constant);
      else scale_by(*constant);
      value = binding->operands[1 - at];
    }
    rows.length = ranges_.of(value).row_norm;
    return rows;
  }

  bool is_over_rows(const Binding& norm) const {
    const std::int64_t axis = integer_attribute(norm, "axis"),
                       rank = static_cast<std::int64_t>(graph_.type(norm.results[0]).rank());
    return (axis == -1 || axis == rank - 1) && real_attribute(norm, "epsilon") >= least_epsilon;
  }

  std::optional<Columns> product(const Binding& binding) {
    const Binding* weight = graph_.definition(binding.operands[1]);
    if (weight == nullptr || weight->op != Op::constant) return std::nullopt;
    const Tensor& matrix = tensor_attribute(*weight, "value");
    if (matrix.rank() != 2 || !is_float(matrix.dtype())) return std::nullopt;
    const auto depth = static_cast<std::size_t>(matrix.dims()[0]),
               width = static_cast<std::size_t>(matrix.dims()[1]);
    const Reals elements(matrix);
    const Rows rows = rows_of(binding.operands[0], depth);
    if (!std::isfinite(rows.length)) return std::nullopt;
    Columns columns{{depth, width, std::vector<double>(depth * width)},
                    std::vector<double>(width, 0.0),
                    rows.length};
    for (std::size_t k = 0; k < depth; ++k) {
      for (std::size_t j = 0; j < width; ++j) {
        const double element = elements[k * width + j];
        columns.matrix.at(k, j) = rows.gain[k] * element;
        columns.offset[j] += rows.shift[k] * element;
      }
    }
    return columns;
  }

  const PatternGraph graph_;
  ElementRanges& ranges_;
};

// It bounds scores whose product is at most `product` either way; NaN where nothing is known of it.
// A product without a bound may overflow, and be no number for softcap to bound.
double bound_of_scores(const Binding& attention, double product) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double bound = product * std::abs(real_attribute(attention, "scale")),
               softcap = real_attribute(attention, "softcap");
  if (!(bound < infinity)) return infinity;
  return softcap == 0 ? bound : std::min(bound, softcap * (1 + rounding));
}

}  // namespace

double score_bound_of_rows(const Binding& attention, ElementRanges& ranges) {
  return bound_of_scores(attention, ranges.of(attention.operands[0]).row_norm *
                                        ranges.of(attention.operands[1]).row_norm);
}

double score_bound(const Function& function, const Block& block, const Binding& attention,
                   ElementRanges& ranges) {
  Tracing tracing(function, block, ranges);
  return bound_of_scores(attention, tracing.head_norm(attention.operands[0]) *
                                        tracing.head_norm(attention.operands[1]));
}

}  // namespace anydim::passes
