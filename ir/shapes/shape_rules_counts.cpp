// Ops whose size only the data tells, and the two that they are made of.

#include <algorithm>
#include <set>

#include "ir/shapes/shape_rules.h"

namespace anydim::ir {
namespace {

Dim elements_of(const TensorType& type) { return product(type.dims); }

// A number or a vector of one.
void expect_single(const RuleContext& context, std::size_t operand, bool real) {
  const bool fits = real ? is_float(context.dtype(operand)) : is_integer(context.dtype(operand));
  context.expect(fits && context.tensor(operand).rank() == 0, operand,
                 real ? "a real number of rank 0" : "an integer of rank 0");
}

}  // namespace

void place_count(RuleResult& result, const Count& count, const Dim& extent) {
  for (const auto& [position, axis] : count.places)
    result.types[position].tensor.dims[axis] = extent;
}

SymbolInfo info_of(const Count& count, const SymbolTable& symbols) {
  SymbolInfo info;
  info.unbacked = true;
  info.high = std::clamp<std::int64_t>(bounds(count.bound, symbols).high, 0, info.high);
  // Elements of tensors are not known where a function's symbols are declared.
  const std::set<DimLeaf> leaves = count.bound.leaves();
  if (std::ranges::all_of(leaves, &DimLeaf::is_symbol)) info.below = count.bound + 1;
  return info;
}

void compact_rule(RuleContext& context) {
  context.expect(context.dtype(0) == DType::Bool, 0, "a bool tensor");
  context.add_result(DType::I64, {elements_of(context.tensor(0))});
  context.add_result(DType::I64, {});
}

void nonzero_rule(RuleContext& context) {
  const TensorType& type = context.tensor(0);
  context.add_result(DType::I64, {Dim(static_cast<std::int64_t>(type.rank())), any_extent()});
  context.result.counts.push_back({{{0, 1}}, elements_of(type)});
}

void compress_rule(RuleContext& context) {
  const TensorType& type = context.tensor(0);
  const TensorType& condition = context.tensor(1);
  context.expect(condition.dtype == DType::Bool && condition.rank() == 1, 1, "a bool vector");
  const Dim& given = condition.dims[0];
  if (!has_attribute(context.binding, "axis")) {
    context.require(Relation::LessEqual, given, elements_of(type),
                    "dimension 0 of operand 1, the condition,");
    context.add_result(type.dtype, {any_extent()});
    context.result.counts.push_back({{{0, 0}}, given});
    return;
  }
  context.expect_rank_at_least(0, 1);
  const std::size_t axis = context.axis(integer_attribute(context.binding, "axis"), type.rank());
  context.require(Relation::LessEqual, given, type.dims[axis],
                  "dimension 0 of operand 1, the condition,");
  std::vector<Dim> dims = type.dims;
  dims[axis] = any_extent();
  context.add_result(type.dtype, std::move(dims));
  context.result.counts.push_back({{{0, axis}}, given});
}

void unique_rule(RuleContext& context) {
  const TensorType& type = context.tensor(0);
  std::vector<Dim> dims{any_extent()};
  std::size_t axis = 0;
  Dim positions = elements_of(type);
  if (has_attribute(context.binding, "axis")) {
    context.expect_rank_at_least(0, 1);
    axis = context.axis(integer_attribute(context.binding, "axis"), type.rank());
    dims = type.dims;
    dims[axis] = any_extent();
    positions = type.dims[axis];
  }
  context.add_result(type.dtype, std::move(dims));
  context.add_result(DType::I64, {any_extent()});
  context.add_result(DType::I64, {positions});
  context.add_result(DType::I64, {any_extent()});
  context.result.counts.push_back({{{0, axis}, {1, 0}, {3, 0}}, positions});
}

void non_max_suppression_rule(RuleContext& context) {
  const TensorType& boxes = context.tensor(0);
  const TensorType& scores = context.tensor(1);
  context.expect(is_float(boxes.dtype) && boxes.rank() == 3, 0, "a tensor of reals of rank 3");
  context.expect(is_float(scores.dtype) && scores.rank() == 3, 1, "a tensor of reals of rank 3");
  context.expect_same_dtype(0, 1);
  expect_single(context, 2, false);
  expect_single(context, 3, true);
  if (context.has(4)) expect_single(context, 4, true);
  context.require_dim(Relation::Equal, 0, 2, 4);
  context.require_dim(Relation::Equal, 0, 0, scores.dims[0]);
  context.require_dim(Relation::Equal, 0, 1, scores.dims[2]);
  Dim of_class = scores.dims[2];
  if (context.shape_data(2)) of_class = min(of_class, max(context.shape_data(2)->front(), 0));
  context.add_result(DType::I64, {any_extent(), Dim(3)});
  context.result.counts.push_back({{{0, 0}}, scores.dims[0] * scores.dims[1] * of_class});
}

}  // namespace anydim::ir
