#include "passes/score_bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "ir/scalar_access.h"

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
      for (std::size_t j = 0; j < count; ++j) result.at(i, j) += matrix.at(k, first + i) * matrix.at(k, first + j);
  return result;
}

// A squared deviation below this is lost in float32, where only epsilon keeps the quotient of nearly equal elements small.
constexpr double least_epsilon = 1e-30;
// What operands that are rounded to bfloat16 may add: an eighth bit of each element, and as much again of the products' rounding.
constexpr double rounding = 0x1p-7;

// sum of (singular value)^8 = |(M'M)^2| squared, Frobenius: its eighth root is at least the largest.
double spectral_norm_at_most(const Matrix& matrix, std::size_t first, std::size_t count) {
  const Matrix once = gram(matrix, first, count);
  return std::sqrt(std::sqrt(frobenius(gram(once, 0, count), 0, count)));
}

class Tracing {
 public:
  Tracing(const Function& function, const Block& block) : function_(function) {
    for (const Binding& binding : block.bindings)
      for (const ValueId result : binding.results) definitions_[result] = &binding;
  }

  // A bound of a row's norm in any head.
  std::optional<double> head_norm(ValueId value) const {
    const std::optional<std::int64_t> width = type(value).dims.back().constant();
    std::size_t axis = type(value).rank() - 1;
    // Views between the heads and the columns that they were cut from; `axis` counts the elements of a head.
    for (const Binding* view = definition(value); view != nullptr; view = definition(value)) {
      if (view->op == Op::transpose) {
        axis = permutation(*view, type(value).rank())[axis];
      } else if (!info(view->op).has(traits::reshapes) || axis != type(value).rank() - 1) {
        break;
      } else {
        axis = type(view->operands[0]).rank() - 1;
      }
      value = view->operands[0];
      if (!(type(value).dims[axis].constant() == width)) break;
    }
    if (axis != type(value).rank() - 1) return std::nullopt;
    const auto columns = columns_of(value);
    if (!columns || !width || *width <= 0) return std::nullopt;
    const auto count = static_cast<std::size_t>(*width);
    if (columns->matrix.columns % count != 0) return std::nullopt;
    double largest = 0;
    for (std::size_t first = 0; first < columns->matrix.columns; first += count) {
      double offset = 0;
      for (std::size_t j = first; j < first + count; ++j) offset += columns->offset[j] * columns->offset[j];
      const double gain = spectral_norm_at_most(columns->matrix, first, count) + rounding * frobenius(columns->matrix, first, count);
      largest = std::max(largest, (columns->length * gain + std::sqrt(offset)) * (1 + rounding));
    }
    return largest;
  }

 private:
  const TensorType& type(ValueId value) const { return function_.tensor_type(value); }
  const Binding* definition(ValueId value) const {
    const auto found = definitions_.find(value);
    return found == definitions_.end() ? nullptr : found->second;
  }

  // Elements of a constant that broadcasts along the last dim alone.
  std::optional<std::vector<double>> row(ValueId value, std::size_t extent) const {
    const Binding* binding = definition(value);
    if (binding == nullptr || binding->op != Op::constant) return std::nullopt;
    const Tensor& tensor = tensor_attribute(*binding, "value");
    if (!is_float(tensor.dtype())) return std::nullopt;
    const auto elements = static_cast<std::size_t>(tensor.elements());
    if (elements != 1 && (elements != extent || tensor.dims().back() != tensor.elements())) return std::nullopt;
    std::vector<double> result;
    for (std::size_t i = 0; i < extent; ++i) result.push_back(tensor.real_at(elements == 1 ? 0 : static_cast<std::int64_t>(i)));
    return result;
  }

  std::optional<Columns> columns_of(ValueId value) const {
    const Binding* binding = definition(value);
    if (binding == nullptr || !type(value).dims.back().is_constant()) return std::nullopt;
    const auto extent = static_cast<std::size_t>(*type(value).dims.back().constant());
    if (binding->op == Op::add || binding->op == Op::mul) return combined(*binding, extent);
    if (binding->op == Op::split) return split(*binding, value);
    if (binding->op == Op::matmul) return product(*binding);
    return std::nullopt;
  }

  std::optional<Columns> combined(const Binding& binding, std::size_t extent) const {
    for (const std::size_t i : {0u, 1u}) {
      const auto constant = row(binding.operands[1 - i], extent);
      if (!constant || !(type(binding.operands[i]).dims.back() == type(binding.results[0]).dims.back())) continue;
      auto columns = columns_of(binding.operands[i]);
      if (!columns) return std::nullopt;
      for (std::size_t j = 0; j < extent; ++j) {
        if (binding.op == Op::add) {
          columns->offset[j] += (*constant)[j];
          continue;
        }
        columns->offset[j] *= (*constant)[j];
        for (std::size_t k = 0; k < columns->matrix.rows; ++k) columns->matrix.at(k, j) *= (*constant)[j];
      }
      return columns;
    }
    return std::nullopt;
  }

  std::optional<Columns> split(const Binding& binding, ValueId value) const {
    const ValueId source = binding.operands[0];
    const std::int64_t axis = integer_attribute(binding, "axis"), rank = static_cast<std::int64_t>(type(source).rank());
    if (axis != rank - 1 && axis != -1) return std::nullopt;
    std::size_t first = 0;
    for (const ValueId result : binding.results) {
      if (result == value) break;
      const auto extent = type(result).dims.back().constant();
      if (!extent) return std::nullopt;
      first += static_cast<std::size_t>(*extent);
    }
    const auto all = columns_of(source);
    if (!all) return std::nullopt;
    const auto extent = static_cast<std::size_t>(*type(value).dims.back().constant());
    const auto begin = all->offset.begin() + static_cast<std::ptrdiff_t>(first);
    Columns columns{{all->matrix.rows, extent, {}}, {begin, begin + static_cast<std::ptrdiff_t>(extent)}, all->length};
    for (std::size_t k = 0; k < all->matrix.rows; ++k)
      for (std::size_t j = 0; j < extent; ++j) columns.matrix.elements.push_back(all->matrix.at(k, first + j));
    return columns;
  }

  std::optional<Columns> product(const Binding& binding) const {
    const Binding* norm = definition(binding.operands[0]);
    const Binding* weight = definition(binding.operands[1]);
    if (norm == nullptr || norm->op != Op::layer_norm || weight == nullptr || weight->op != Op::constant) return std::nullopt;
    const std::int64_t axis = integer_attribute(*norm, "axis"), rank = static_cast<std::int64_t>(type(norm->results[0]).rank());
    const Tensor& matrix = tensor_attribute(*weight, "value");
    if ((axis != -1 && axis != rank - 1) || matrix.rank() != 2 || !is_float(matrix.dtype())) return std::nullopt;
    if (!(real_attribute(*norm, "epsilon") >= least_epsilon)) return std::nullopt;
    const auto depth = static_cast<std::size_t>(matrix.dims()[0]), width = static_cast<std::size_t>(matrix.dims()[1]);
    const auto gain = row(norm->operands[1], depth);
    std::optional<std::vector<double>> shift = std::vector<double>(depth, 0.0);
    if (norm->operands.size() > 2 && norm->operands[2] != no_value) shift = row(norm->operands[2], depth);
    if (!gain || !shift) return std::nullopt;
    Columns columns{
        {depth, width, std::vector<double>(depth * width)}, std::vector<double>(width, 0.0), std::sqrt(static_cast<double>(depth))};
    for (std::size_t k = 0; k < depth; ++k) {
      for (std::size_t j = 0; j < width; ++j) {
        const double element = matrix.real_at(static_cast<std::int64_t>(k * width + j));
        columns.matrix.at(k, j) = (*gain)[k] * element;
        columns.offset[j] += (*shift)[k] * element;
      }
    }
    return columns;
  }

  const Function& function_;
  std::map<ValueId, const Binding*> definitions_;
};

}  // namespace

std::optional<double> score_bound(const Function& function, const Block& block, const Binding& attention) {
  const Tracing tracing(function, block);
  const auto query = tracing.head_norm(attention.operands[0]), key = tracing.head_norm(attention.operands[1]);
  if (!query || !key) return std::nullopt;
  return *query * *key * std::abs(real_attribute(attention, "scale"));
}

}  // namespace anydim::passes
