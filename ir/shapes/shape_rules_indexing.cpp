// Ops that read or write elements at computed places: pad, repeat, one_hot, resize, scatter.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "ir/shapes/shape_rules.h"

#include "ir/printable.h"

namespace anydim::ir {
namespace {

bool is_dynamic(const RuleContext& context) {
  return info(context.binding.op).has(traits::dynamic);
}

// Demands low <= dim unless it is proven.
void require_at_least(RuleContext& context, std::int64_t low, const Dim& dim, std::string what) {
  if (prove_less_equal(low, dim, context.symbols) != Proof::Yes)
    context.require(Relation::GreaterEqual, dim, low, std::move(what));
}

void expect_string(const RuleContext& context, std::string_view attribute,
                   std::span<const std::string_view> known) {
  const std::string& given = string_attribute(context.binding, attribute);
  if (std::ranges::find(known, given) != known.end()) return;
  std::string list;
  for (const std::string_view one : known)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", one);
  context.malformed("{} is '{}'; expected one of {}", attribute, printable(given), list);
}

void expect_indices(const RuleContext& context) {
  context.expect(is_integer(context.dtype(1)), 1, "an integer tensor");
}

void scatter_operands(const RuleContext& context) {
  expect_indices(context);
  context.expect_rank_at_least(0, 1);
  context.expect_same_dtype(0, 2);
  static constexpr std::array<std::string_view, 5> reductions{"none", "add", "mul", "min", "max"};
  expect_string(context, "reduction", reductions);
  if (string_attribute(context.binding, "reduction") != "none")
    context.expect(context.dtype(0) != DType::Bool, 0, "a tensor of numbers");
}

// Where there is an update there must be an element for it.
void require_room(RuleContext& context, const Dim& updates, std::size_t dimension) {
  const Dim& extent = context.dims(0)[dimension];
  if (prove_less_equal(min(updates, 1), extent, context.symbols) == Proof::Yes) return;
  context.require_dim(Relation::GreaterEqual, 0, dimension, min(updates, 1));
}

}  // namespace

void pad_rule(RuleContext& context) {
  const TensorType& type = context.tensor(0);
  const Binding& binding = context.binding;
  const bool dynamic = is_dynamic(context);
  std::vector<Dim> before =
      dynamic ? context.elements(2) : dims_of(integers_attribute(binding, "before"));
  std::vector<Dim> after =
      dynamic ? context.elements(3) : dims_of(integers_attribute(binding, "after"));
  const std::vector<Dim> axes = named_axes(context, 4, type.rank(), type.rank());
  if (before.size() != axes.size() || after.size() != axes.size()) {
    context.malformed("{} sizes before and {} after for {} axes", before.size(), after.size(),
                      axes.size());
  }
  if (context.has(1)) {
    context.expect(context.tensor(1).rank() == 0, 1, "of rank 0");
    context.expect_same_dtype(0, 1);
  }
  static constexpr std::array<std::string_view, 4> modes{"constant", "edge", "reflect", "wrap"};
  expect_string(context, "mode", modes);
  std::vector<Dim> dims = type.dims;
  before = sizes_by_dimension(before, axes, type.rank());
  after = sizes_by_dimension(after, axes, type.rank());
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (before[axis].is_constant(0) && after[axis].is_constant(0)) continue;
    dims[axis] = dims[axis] + before[axis] + after[axis];
    require_at_least(context, 0, dims[axis], fmt::format("dimension {} after padding", axis));
    if (string_attribute(binding, "mode") == "constant") continue;
    // What negative sizes leave.
    const Dim left =
        max(Dim(0), type.dims[axis] + min(Dim(0), before[axis]) + min(Dim(0), after[axis]));
    if (prove_less_equal(min(dims[axis], 1), left, context.symbols) == Proof::Yes) continue;
    context.require(Relation::GreaterEqual, left, min(dims[axis], 1),
                    fmt::format("what negative sizes leave of {}", dimension_of_operand(axis, 0)));
  }
  context.add_result(type.dtype, std::move(dims));
}

void repeat_rule(RuleContext& context) {
  TensorType type = context.tensor(0);
  context.expect_rank_at_least(0, 1);
  const std::size_t axis = context.axis(integer_attribute(context.binding, "axis"), type.rank());
  const Dim repeats =
      is_dynamic(context) ? context.scalar(1) : Dim(integer_attribute(context.binding, "repeats"));
  context.require_extent(repeats, 1, 0);
  type.dims[axis] = type.dims[axis] * repeats;
  context.add_result(type.dtype, std::move(type.dims));
}

void one_hot_rule(RuleContext& context) {
  context.expect(is_integer(context.dtype(0)), 0, "an integer tensor");
  for (const std::size_t value : {1u, 2u})
    context.expect(context.tensor(value).rank() == 0, value, "of rank 0");
  context.expect_same_dtype(1, 2);
  std::vector<Dim> dims = context.dims(0);
  const std::size_t axis =
      context.axis(integer_attribute(context.binding, "axis"), dims.size() + 1);
  const Dim depth =
      is_dynamic(context) ? context.scalar(3) : Dim(integer_attribute(context.binding, "depth"));
  context.require_extent(depth, 3, 0);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  context.add_result(context.dtype(1), std::move(dims));
}

void resize_rule(RuleContext& context) {
  const TensorType& type = context.tensor(0);
  const Binding& binding = context.binding;
  static constexpr std::array<std::string_view, 3> modes{"nearest", "linear", "cubic"};
  static constexpr std::array<std::string_view, 5> coordinates{
      "half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn"};
  static constexpr std::array<std::string_view, 4> roundings{"round_prefer_floor",
                                                             "round_prefer_ceil", "floor", "ceil"};
  expect_string(context, "mode", modes);
  expect_string(context, "coordinates", coordinates);
  expect_string(context, "rounding", roundings);
  if (string_attribute(binding, "mode") != "nearest")
    context.expect(is_float(type.dtype), 0, "a float tensor");
  std::vector<Dim> sizes =
      is_dynamic(context) ? context.elements(2) : dims_of(integers_attribute(binding, "sizes"));
  if (sizes.size() != type.rank()) {
    context.malformed("{} sizes for {} of rank {}", sizes.size(), context.operand_text(0),
                      type.rank());
  }
  context.expect(context.dtype(1) == DType::F32 && context.tensor(1).rank() == 1, 1,
                 "an f32 vector");
  context.require_dim(Relation::Equal, 1, 0, static_cast<std::int64_t>(type.rank()));
  std::vector<bool> sampled(type.rank(), !has_attribute(binding, "axes"));
  if (has_attribute(binding, "axes")) {
    for (const std::size_t axis : context.axes(integers_attribute(binding, "axes"), type.rank()))
      sampled[axis] = true;
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!sampled[i]) {
      context.require_dim(Relation::Equal, 0, i, sizes[i]);
      sizes[i] = type.dims[i];
      continue;
    }
    context.require_extent(sizes[i], 2, i);
    if (sizes[i] == type.dims[i] ||
        prove_less_equal(1, type.dims[i], context.symbols) == Proof::Yes)
      continue;
    context.require_dim(Relation::GreaterEqual, 0, i, min(sizes[i], 1));
  }
  context.add_result(type.dtype, std::move(sizes));
}

void scatter_elements_rule(RuleContext& context) {
  scatter_operands(context);
  const TensorType& data = context.tensor(0);
  const std::vector<Dim>& indices = context.dims(1);
  context.expect(indices.size() == data.rank(), 1,
                 fmt::format("of rank {} like {}", data.rank(), context.operand_text(0)));
  context.expect(context.tensor(2).rank() == data.rank(), 2,
                 fmt::format("of rank {} like {}", data.rank(), context.operand_text(0)));
  const std::size_t axis = context.axis(integer_attribute(context.binding, "axis"), data.rank());
  for (std::size_t i = 0; i < data.rank(); ++i) {
    if (i != axis) context.require_dim(Relation::LessEqual, 1, i, data.dims[i]);
    context.require_dim(Relation::Equal, 2, i, indices[i]);
  }
  require_room(context, product(indices), axis);
  context.add_result(data.dtype, data.dims);
}

void scatter_nd_rule(RuleContext& context) {
  scatter_operands(context);
  context.expect_rank_at_least(1, 1);
  const TensorType& data = context.tensor(0);
  const std::vector<Dim>& indices = context.dims(1);
  const std::optional<std::int64_t> depth = indices.back().constant();
  if (!depth) {
    context.unsupported("the last dimension of {} is {}, so how many dims it addresses isn't known",
                        context.operand_text(1), context.text(indices.back()));
  }
  if (*depth < 1 || static_cast<std::size_t>(*depth) > data.rank()) {
    context.malformed("the last dimension of {} must be from 1 to {}, got {}",
                      context.operand_text(1), data.rank(), *depth);
  }
  std::vector<Dim> expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(*depth),
                  data.dims.end());
  context.expect(context.tensor(2).rank() == expected.size(), 2,
                 fmt::format("of rank {}", expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i)
    context.require_dim(Relation::Equal, 2, i, expected[i]);
  for (std::size_t i = 0; i < static_cast<std::size_t>(*depth); ++i)
    require_room(context, product(expected), i);
  context.add_result(data.dtype, data.dims);
}

void cumulative_sum_rule(RuleContext& context) {
  context.expect(context.dtype(0) != DType::Bool, 0, "a tensor of numbers");
  context.expect_rank_at_least(0, 1);
  const std::size_t rank = context.tensor(0).rank();
  const Dim axis =
      is_dynamic(context) ? context.scalar(1) : Dim(integer_attribute(context.binding, "axis"));
  if (const std::optional<std::int64_t> constant = axis.constant()) {
    context.axis(*constant, rank);
  } else {
    const auto signed_rank = static_cast<std::int64_t>(rank);
    context.require(Relation::GreaterEqual, axis, -signed_rank, "operand 1, the axis");
    context.require(Relation::LessEqual, axis, signed_rank - 1, "operand 1, the axis");
  }
  context.add_result(context.dtype(0), context.dims(0));
}

namespace {

// That `count`, operand 1 where it is one, leading places of an axis can be asked for.
void require_leading(RuleContext& context, const Dim& count, const Dim& extent, const char* what) {
  context.require_extent(count, 1, 0);
  if (prove_less_equal(count, extent, context.symbols) != Proof::Yes)
    context.require(Relation::LessEqual, count, extent, what);
}

}  // namespace

void top_k_rule(RuleContext& context) {
  TensorType type = context.tensor(0);
  context.expect(type.dtype != DType::Bool, 0, "a tensor of numbers");
  context.expect_rank_at_least(0, 1);
  const std::size_t axis = context.axis(integer_attribute(context.binding, "axis"), type.rank());
  const Dim k =
      is_dynamic(context) ? context.scalar(1) : Dim(integer_attribute(context.binding, "k"));
  require_leading(context, k, type.dims[axis], "k");
  type.dims[axis] = k;
  context.add_result(type.dtype, type.dims);
  context.add_result(DType::I64, std::move(type.dims));
}

void argsort_rule(RuleContext& context) {
  context.expect_rank_at_least(0, 1);
  TensorType type = context.tensor(0);
  const std::size_t axis = context.axis(integer_attribute(context.binding, "axis"), type.rank());
  if (context.has(1)) {
    const Dim count = context.scalar(1);
    require_leading(context, count, type.dims[axis], "count");
    type.dims[axis] = count;
  }
  if (integer_attribute(context.binding, "slices") != 0)
    context.add_result(DType::I64, {type.dims[axis]});
  else context.add_result(DType::I64, std::move(type.dims));
}

void arg_rule(RuleContext& context) {
  TensorType type = context.tensor(0);
  context.expect_rank_at_least(0, 1);
  context.expect(type.dtype != DType::Bool, 0, "a tensor of numbers");
  const std::size_t axis = context.axis(integer_attribute(context.binding, "axis"), type.rank());
  require_at_least(context, 1, type.dims[axis], dimension_of_operand(axis, 0));
  if (integer_attribute(context.binding, "keepdims") != 0) type.dims[axis] = 1;
  else type.dims.erase(type.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  context.add_result(DType::I64, std::move(type.dims));
}

}  // namespace anydim::ir
