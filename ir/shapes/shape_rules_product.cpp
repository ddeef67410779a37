// Matrix products and the composites over the last axes.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "ir/shapes/shape_rules.h"

namespace anydim::ir {
namespace {

void expect_float(const RuleContext& context, std::size_t operand) {
  context.expect(is_float(context.dtype(operand)), operand, "a float tensor");
}

// Batch dims of operands of rank 2 and more: all but the last two.
std::span<const Dim> batch_of(const std::vector<Dim>& dims) {
  return std::span(dims).first(dims.size() - 2);
}

// Demands that an operand broadcasts to `target`, aligned at the end, without changing it.
void require_expands(RuleContext& context, std::size_t operand, std::span<const Dim> target) {
  const std::vector<Dim>& dims = context.dims(operand);
  context.expect(dims.size() <= target.size(), operand,
                 fmt::format("of rank {} or less", target.size()));
  const std::size_t ahead = target.size() - dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].is_constant(1))
      context.require_dim(Relation::ExpandsTo, operand, i, target[ahead + i]);
  }
}

}  // namespace

void matmul_rule(RuleContext& context) {
  for (std::size_t i = 0; i < 2; ++i) {
    context.expect(context.dtype(i) != DType::Bool, i, "a tensor of numbers");
    context.expect_rank_at_least(i, 1);
  }
  context.expect_same_dtype(0, 1);
  const std::vector<Dim>& left = context.dims(0);
  const std::vector<Dim>& right = context.dims(1);
  const std::size_t right_depth = right.size() == 1 ? 0 : right.size() - 2;
  context.require_dim(Relation::Equal, 1, right_depth, left.back());
  if (const std::int64_t block = integer_attribute(context.binding, "left_block"); block < 0) {
    context.malformed("left_block is {}; expected a number of elements, or 0 for none", block);
  }
  std::vector<Dim> dims;
  if (left.size() > 1 && right.size() > 1)
    dims = context.broadcast_dims(batch_of(left), 0, batch_of(right));
  else if (left.size() > 1) dims.assign(left.begin(), left.end() - 2);
  else if (right.size() > 1) dims.assign(right.begin(), right.end() - 2);
  if (left.size() > 1) dims.push_back(left[left.size() - 2]);
  if (right.size() > 1) dims.push_back(right.back());
  context.add_result(context.dtype(0), std::move(dims));
}

void softmax_rule(RuleContext& context) {
  expect_float(context, 0);
  context.axis(integer_attribute(context.binding, "axis"), context.tensor(0).rank());
  context.add_result(context.dtype(0), context.dims(0));
}

void layer_norm_rule(RuleContext& context) {
  expect_float(context, 0);
  const std::vector<Dim>& dims = context.dims(0);
  const std::size_t axis = context.axis(integer_attribute(context.binding, "axis"), dims.size());
  for (std::size_t operand = 1; operand < context.operands.size(); ++operand) {
    if (!context.has(operand)) continue;
    context.expect_same_dtype(0, operand);
    require_expands(context, operand, std::span(dims).subspan(axis));
  }
  context.add_result(context.dtype(0), dims);
}

void attention_rule(RuleContext& context) {
  for (std::size_t i = 0; i < 3; ++i) {
    expect_float(context, i);
    context.expect_same_dtype(0, i);
    context.expect_rank_at_least(i, 2);
  }
  if (const double softcap = real_attribute(context.binding, "softcap");
      !(softcap >= 0) || std::isinf(softcap))
    context.malformed("softcap is {}; expected a positive number, or 0 for none", softcap);
  const std::vector<Dim>& query = context.dims(0);
  const std::vector<Dim>& key = context.dims(1);
  const std::vector<Dim>& value = context.dims(2);
  context.require_dim(Relation::Equal, 1, key.size() - 1, query.back());
  context.require_dim(Relation::Equal, 2, value.size() - 2, key[key.size() - 2]);
  const std::vector<Dim> scores_batch = context.broadcast_dims(batch_of(query), 0, batch_of(key));
  std::vector<Dim> dims = context.broadcast_dims(batch_of(value), 2, scores_batch);
  if (context.has(3)) {
    if (context.dtype(3) != DType::Bool) context.expect_same_dtype(0, 3);
    std::vector<Dim> scores = dims;
    scores.push_back(query[query.size() - 2]);
    scores.push_back(key[key.size() - 2]);
    require_expands(context, 3, scores);
  }
  if (context.has(4)) {
    const Dim segments = context.segments(4);
    context.require_dim(Relation::Equal, 1, key.size() - 2, query[query.size() - 2]);
    if (context.has(5)) {
      context.expect(context.dtype(5) == DType::I64 && context.dims(5).size() == 2, 5,
                     "a matrix of i64");
      context.require_dim(Relation::Equal, 5, 0, segments);
      context.require_dim(Relation::Equal, 5, 1, 2);
    }
    if (integer_attribute(context.binding, "zero_nan") != 0)
      context.malformed("zero_nan=1 beside offsets");
  } else if (context.has(5)) {
    context.malformed("a list of work without offsets");
  }
  dims.push_back(query[query.size() - 2]);
  dims.push_back(value.back());
  context.add_result(context.dtype(0), std::move(dims));
}

}  // namespace anydim::ir
