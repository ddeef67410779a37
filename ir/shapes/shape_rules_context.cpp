#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/shapes/shape_rules.h"
#include "ir/text/print.h"

namespace anydim::ir {
namespace {

const ShapeData no_shape_data;

}  // namespace

const TensorType& RuleContext::tensor(std::size_t operand) const {
  if (!has(operand)) malformed("operand {} is missing", operand);
  const Type& type = *operands[operand].type;
  if (!type.is_tensor()) malformed("{} must be a tensor", operand_text(operand));
  return type.tensor;
}

const ShapeData& RuleContext::shape_data(std::size_t operand) const {
  if (!has(operand) || operands[operand].shape_data == nullptr) return no_shape_data;
  const Type& type = *operands[operand].type;
  return type.is_tensor() && type.tensor.rank() <= 1 ? *operands[operand].shape_data
                                                     : no_shape_data;
}

std::vector<Dim> RuleContext::elements(std::size_t operand) const {
  const TensorType& type = tensor(operand);
  expect(is_integer(type.dtype) && type.rank() <= 1, operand, "an integer tensor of rank 0 or 1");
  if (const ShapeData& known = shape_data(operand)) return *known;
  const std::optional<std::int64_t> length = type.rank() == 0 ? 1 : type.dims[0].constant();
  if (!length) {
    unsupported(
        "{} has the unknown length {}, so the rank of the result isn't known; give it "
        "a constant length",
        operand_text(operand), text(type.dims[0]));
  }
  if (*length > contents_limit) {
    unsupported("{} has {} elements; at most {} can decide a shape", operand_text(operand), *length,
                contents_limit);
  }
  std::vector<Dim> leaves;
  for (std::int64_t i = 0; i < *length; ++i)
    leaves.push_back(Dim::value(binding.operands[operand], i));
  return leaves;
}

Dim RuleContext::scalar(std::size_t operand) const {
  std::vector<Dim> all = elements(operand);
  expect(all.size() == 1, operand, "one integer");
  return all[0];
}

std::vector<std::int64_t> RuleContext::constants(std::size_t operand,
                                                 std::string_view purpose) const {
  std::vector<std::int64_t> known;
  for (const Dim& element : elements(operand)) {
    const std::optional<std::int64_t> constant = element.constant();
    if (!constant) {
      unsupported("{}, {}, must be known when compiled; element {} is {}", operand_text(operand),
                  purpose, known.size(), text(element));
    }
    known.push_back(*constant);
  }
  return known;
}

std::size_t RuleContext::axis(std::int64_t axis, std::size_t rank) const {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    malformed("axis {} is out of range for rank {}", axis, rank);
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

std::vector<std::size_t> RuleContext::axes(std::span<const std::int64_t> given,
                                           std::size_t rank) const {
  std::vector<std::size_t> normal;
  for (const std::int64_t one : given) {
    const std::size_t position = axis(one, rank);
    if (std::ranges::find(normal, position) != normal.end())
      malformed("axis {} is given twice", one);
    normal.push_back(position);
  }
  return normal;
}

void RuleContext::expect(bool holds, std::size_t operand, std::string_view expected) const {
  if (holds) return;
  malformed("{} must be {}, got {}", operand_text(operand), expected,
            text_of(tensor(operand), function));
}

void RuleContext::expect_same_dtype(std::size_t first, std::size_t second) const {
  if (dtype(first) == dtype(second)) return;
  malformed("{} must be {} like {}, got {}", operand_text(second), name_of(dtype(first)),
            operand_text(first), name_of(dtype(second)));
}

void RuleContext::expect_rank_at_least(std::size_t operand, std::size_t rank) const {
  expect(tensor(operand).rank() >= rank, operand, fmt::format("of rank {} or more", rank));
}

void RuleContext::require(Relation relation, const Dim& left, const Dim& right, std::string what,
                          std::string purpose) {
  result.preconditions.push_back({relation, left, right, std::move(what), std::move(purpose)});
}

void RuleContext::require_dim(Relation relation, std::size_t operand, std::size_t dimension,
                              const Dim& right) {
  const Dim& left = dims(operand)[dimension];
  if (left == right) return;
  require(relation, left, right, dimension_of_operand(dimension, operand));
}

void RuleContext::require_extent(const Dim& extent, std::size_t operand, std::size_t element) {
  const std::optional<std::int64_t> constant = extent.constant();
  if (constant ? *constant >= 0 : prove_less_equal(0, extent, symbols) == Proof::Yes) return;
  if (operand >= operands.size())
    malformed("size {} is {}, which is negative", element, text(extent));
  require(Relation::GreaterEqual, extent, 0,
          fmt::format("element {} of operand {}", element, operand));
}

Dim RuleContext::segments(std::size_t operand) {
  expect(dtype(operand) == DType::I64 && dims(operand).size() == 1, operand, "a vector of i64");
  const Dim& entries = dims(operand).front();
  if (prove_less_equal(1, entries, symbols) != Proof::Yes) {
    require(Relation::GreaterEqual, entries, 1, dimension_of_operand(0, operand));
  }
  return entries - 1;
}

std::vector<Dim> RuleContext::broadcast_dims(std::span<const Dim> left, std::size_t left_operand,
                                             std::span<const Dim> right) {
  const std::size_t rank = std::max(left.size(), right.size());
  std::vector<Dim> dims(rank);
  for (std::size_t back = 1; back <= rank; ++back) {
    Dim& dim = dims[rank - back];
    if (back > left.size()) {
      dim = right[right.size() - back];
    } else if (back > right.size()) {
      dim = left[left.size() - back];
    } else {
      const Dim& a = left[left.size() - back];
      const Dim& b = right[right.size() - back];
      dim = broadcast(a, b);
      if (a != b && !a.is_constant(1) && !b.is_constant(1)) {
        require(Relation::Broadcastable, a, b,
                dimension_of_operand(left.size() - back, left_operand));
      }
    }
  }
  return dims;
}

void RuleContext::add_result(DType dtype, std::vector<Dim> dims, ShapeData shape_data) {
  result.types.emplace_back(TensorType{dtype, std::move(dims)});
  result.shape_data.push_back(std::move(shape_data));
}

std::string RuleContext::operand_text(std::size_t operand) const {
  if (operand >= binding.operands.size() || binding.operands[operand] == no_value)
    return fmt::format("operand {}", operand);
  return fmt::format("operand {} (%{})", operand, function.values[binding.operands[operand]].name);
}

std::string RuleContext::text(const Dim& dim) const { return print(function, dim); }

void RuleContext::refuse(ErrorKind kind, std::string_view reason) const {
  throw Error(kind, "{}: {}.", describe(function, binding), reason);
}

std::string text_of(const TensorType& type, const Function& function) {
  return print(function, Type(type));
}

std::string dimension_of_operand(std::size_t dimension, std::size_t operand) {
  return fmt::format("dimension {} of operand {}", dimension, operand);
}

std::vector<Dim> dims_of(std::span<const std::int64_t> integers) {
  return {integers.begin(), integers.end()};
}

bool within_shape_data_limit(const Dim& length) {
  const std::optional<std::int64_t> constant = length.constant();
  return constant && *constant >= 0 && *constant <= contents_limit;
}

bool tracks_contents(const TensorType& type) {
  return !is_float(type.dtype) && type.rank() <= 1 &&
         (type.rank() == 0 || within_shape_data_limit(type.dims[0]));
}

ShapeData fitting(DType dtype, std::vector<Dim> shape_data, const SymbolTable& symbols) {
  // Arithmetic on i64 is checked where it is computed, so it may count as exact; a bool is 0 or 1
  // by construction.
  if (dtype == DType::I64 || dtype == DType::Bool) return shape_data;
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  Interval range{0, std::numeric_limits<std::int64_t>::max()};
  if (is_signed(dtype))
    range = {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
  else if (bits < 64) range.high = (std::int64_t{1} << bits) - 1;
  for (const Dim& element : shape_data) {
    const Interval reach = bounds(element, symbols);
    if (reach.low < range.low || reach.high > range.high) return std::nullopt;
  }
  return shape_data;
}

}  // namespace anydim::ir
