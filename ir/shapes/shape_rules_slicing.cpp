#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/shapes/shape_rules.h"

namespace anydim::ir {

bool is_before_all(const Dim& bound, const Dim& extent, std::int64_t low,
                   const SymbolTable& symbols) {
  const auto constant = bound.constant();
  return constant && *constant < 0 &&
         *constant + std::max<std::int64_t>(bounds(extent, symbols).high, 0) <= low;
}

namespace {

// A slice's bound, counted from the front and kept within [low, high] where high - low == extent: a
// negative bound counts from the end. No form overflows for the extreme values that stand for "to
// the end" in models.
Dim clamped_bound(const Dim& bound, const Dim& extent, const Dim& low, const Dim& high,
                  const SymbolTable& symbols) {
  const Proof negative = prove_less(bound, 0, symbols);
  if (negative == Proof::No) return min(bound, high);
  if (bound.is_constant() && low.is_constant() &&
      is_before_all(bound, extent, *low.constant(), symbols))
    return low;
  if (negative == Proof::Yes && bound.is_constant()) return max(bound + extent, low);
  const Dim from_end = min(max(bound, low - extent), low) + extent;
  if (negative == Proof::Yes) return from_end;
  return select(Comparison::Less, bound, 0, from_end, min(max(bound, low), high));
}

Dim forward_extent(const Dim& extent, const Dim& start, const Dim& end, const Dim& step,
                   const SymbolTable& symbols) {
  const Dim first = clamped_bound(start, extent, 0, extent, symbols);
  const Dim last = clamped_bound(end, extent, 0, extent, symbols);
  return max(0, ceil_div(last - first, step));
}

// On an element where there is one: not before the first, as NumPy has it. -1 where there is none.
Dim backward_start(const Dim& start, const Dim& extent, const SymbolTable& symbols) {
  const Dim first = clamped_bound(start, extent, -1, extent - 1, symbols);
  if (start.is_constant(-1) || prove_less(start, 0, symbols) == Proof::No) return first;
  return max(first, min(extent - 1, 0));
}

Dim backward_extent(const Dim& extent, const Dim& start, const Dim& end, const Dim& stride,
                    const SymbolTable& symbols) {
  const Dim first = backward_start(start, extent, symbols);
  const Dim last = clamped_bound(end, extent, -1, extent - 1, symbols);
  return max(0, ceil_div(first - last, stride));
}

// A stride beyond the extent takes one element, as the extent itself does as a stride; the smaller
// number cannot overflow.
Dim bounded_stride(const Dim& stride, const Dim& extent, const SymbolTable& symbols) {
  const std::optional<std::int64_t> constant = stride.constant();
  const std::int64_t reach = std::max<std::int64_t>(bounds(extent, symbols).high, 1);
  return constant && *constant > reach ? Dim(reach) : stride;
}

struct Slice {
  std::vector<Dim> starts, ends, steps;
  std::vector<Dim> axes;  // from the front
};

Slice slice_of(RuleContext& context) {
  const Binding& binding = context.binding;
  const bool is_static = binding.op == Op::strided_slice;
  Slice slice;
  slice.starts = is_static ? dims_of(integers_attribute(binding, "starts")) : context.elements(1);
  slice.ends = is_static ? dims_of(integers_attribute(binding, "ends")) : context.elements(2);
  const std::size_t count = slice.starts.size();
  const std::size_t rank = context.tensor(0).rank();
  slice.axes = named_axes(context, 3, count, rank);
  slice.steps.assign(count, 1);
  if (!is_static && context.has(4)) slice.steps = context.elements(4);
  if (is_static && has_attribute(binding, "steps"))
    slice.steps = dims_of(integers_attribute(binding, "steps"));
  if (slice.ends.size() != count || slice.axes.size() != count || slice.steps.size() != count) {
    context.malformed("{} starts, {} ends, {} axes and {} steps: expected as many of each", count,
                      slice.ends.size(), slice.axes.size(), slice.steps.size());
  }
  return slice;
}

// Elements of a rank-1 slice by constants.
ShapeData slice_contents(const RuleContext& context, const Slice& slice) {
  const ShapeData& known = context.shape_data(0);
  if (!known || context.tensor(0).rank() != 1) return std::nullopt;
  if (slice.axes.empty()) return known;
  const std::optional<std::int64_t> start = slice.starts[0].constant();
  const std::optional<std::int64_t> end = slice.ends[0].constant();
  const std::optional<std::int64_t> step = slice.steps[0].constant();
  if (!start || !end || !step || *step == 0) return std::nullopt;
  const auto extent = static_cast<std::int64_t>(known->size());
  const SymbolTable no_symbols;
  const std::int64_t length = *slice_extent(extent, *start, *end, *step, no_symbols).constant();
  const Dim from = *step > 0 ? clamped_bound(*start, extent, 0, extent, no_symbols)
                             : backward_start(*start, extent, no_symbols);
  const std::int64_t first = *from.constant();
  std::vector<Dim> elements;
  for (std::int64_t i = 0; i < length; ++i)
    elements.push_back((*known)[static_cast<std::size_t>(first + i * *step)]);
  return elements;
}

// Sizes of a split in equal parts, the last of which may be smaller.
std::vector<Dim> equal_parts(RuleContext& context, const Dim& extent, std::size_t axis) {
  const auto count = static_cast<std::int64_t>(context.binding.results.size());
  if (count == 0) context.malformed("a split has no results");
  const Dim part = ceil_div(extent, count);
  std::vector<Dim> sizes(static_cast<std::size_t>(count), part);
  sizes.back() = extent - part * (count - 1);
  if (prove_less_equal(0, sizes.back(), context.symbols) != Proof::Yes) {
    context.require(Relation::LessEqual, part * (count - 1), extent,
                    fmt::format("all but the last of {} equal parts of {}", count,
                                dimension_of_operand(axis, 0)));
  }
  return sizes;
}

std::optional<std::vector<Dim>> given_sizes(const RuleContext& context) {
  if (context.binding.op == Op::dyn_split) return context.elements(1);
  if (!has_attribute(context.binding, "sizes")) return std::nullopt;
  return dims_of(integers_attribute(context.binding, "sizes"));
}

}  // namespace

Dim magnitude_of_negative(const Dim& step, const SymbolTable& symbols) {
  constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  return Dim(0) - (bounds(step, symbols).low < -greatest ? max(step, -greatest) : step);
}

Dim slice_extent(const Dim& extent, const Dim& start, const Dim& end, const Dim& step,
                 const SymbolTable& symbols) {
  const Proof forward = prove_less(0, step, symbols);
  if (forward == Proof::Yes)
    return forward_extent(extent, start, end, bounded_stride(step, extent, symbols), symbols);
  if (forward == Proof::No) {
    return backward_extent(extent, start, end,
                           bounded_stride(magnitude_of_negative(step, symbols), extent, symbols),
                           symbols);
  }
  const Dim up = forward_extent(extent, start, end, max(step, 1), symbols);
  const Dim down =
      backward_extent(extent, start, end, max(magnitude_of_negative(step, symbols), 1), symbols);
  return select(Comparison::Less, 0, step, up, down);
}

void strided_slice_rule(RuleContext& context) {
  const Slice slice = slice_of(context);
  TensorType type = context.tensor(0);
  for (std::size_t i = 0; i < slice.axes.size(); ++i) {
    const Dim& step = slice.steps[i];
    if (step.is_constant(0)) context.malformed("step {} is 0", i);
    if (!step.is_constant())
      context.require(Relation::NonZero, step, 0,
                      fmt::format("element {} of operand 4, the steps,", i));
    for (std::size_t dimension = 0; dimension < type.rank(); ++dimension) {
      const auto position = static_cast<std::int64_t>(dimension);
      if (slice.axes[i].is_constant() && !slice.axes[i].is_constant(position)) continue;
      const Dim sliced = slice_extent(context.dims(0)[dimension], slice.starts[i], slice.ends[i],
                                      step, context.symbols);
      Dim& dim = type.dims[dimension];
      dim = select(Comparison::Equal, slice.axes[i], position, sliced, dim);
    }
  }
  context.add_result(type.dtype, std::move(type.dims), slice_contents(context, slice));
}

void windows_rule(RuleContext& context) {
  const Binding& binding = context.binding;
  TensorType type = context.tensor(0);
  const std::vector<std::size_t> axes =
      context.axes(integers_attribute(binding, "axes"), type.rank());
  const std::vector<Dim> sizes = binding.op == Op::windows
                                     ? dims_of(integers_attribute(binding, "sizes"))
                                     : context.elements(1);
  if (sizes.size() != axes.size())
    context.malformed("{} sizes for {} axes", sizes.size(), axes.size());
  const auto steps = [&](const char* name) {
    std::vector<std::int64_t> given = integers_or_ones(binding, name, axes.size());
    if (given.size() != axes.size())
      context.malformed("{} {} for {} axes", given.size(), name, axes.size());
    for (std::size_t i = 0; i < given.size(); ++i)
      if (given[i] < 1)
        context.malformed("element {} of the {} is {}; expected at least 1", i, name, given[i]);
    return given;
  };
  const std::vector<std::int64_t> strides = steps("strides"), dilations = steps("dilations");
  std::vector<std::string> shape;
  for (const Dim& size : sizes) shape.push_back(context.text(size));
  std::string purpose = fmt::format("windows of kernel shape ({})", fmt::join(shape, ", "));
  if (std::ranges::any_of(dilations, [](std::int64_t one) { return one != 1; }))
    purpose += fmt::format(" and dilations ({})", fmt::join(dilations, ", "));
  purpose += " to fit";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Dim& size = sizes[i];
    if (const auto constant = size.constant(); constant && *constant < 1) {
      context.malformed("size {} of a window is {}; expected at least 1", i, *constant);
    }
    if (prove_less_equal(1, size, context.symbols) != Proof::Yes) {
      context.require(Relation::GreaterEqual, size, 1, fmt::format("size {} of a window", i));
    }
    Dim& dim = type.dims[axes[i]];
    const Dim reach = dilations[i] * (size - 1) + 1;
    if (prove_less_equal(reach, dim, context.symbols) != Proof::Yes) {
      context.require(Relation::GreaterEqual, dim, reach, dimension_of_operand(axes[i], 0),
                      purpose);
    }
    dim = floor_div(dim - reach, strides[i]) + 1;
  }
  type.dims.insert(type.dims.end(), sizes.begin(), sizes.end());
  context.add_result(type.dtype, std::move(type.dims));
}

void split_rule(RuleContext& context) {
  const TensorType& operand = context.tensor(0);
  const std::size_t axis = context.axis(integer_attribute(context.binding, "axis"), operand.rank());
  const Dim& extent = operand.dims[axis];
  std::vector<Dim> sizes;
  if (std::optional<std::vector<Dim>> given = given_sizes(context)) {
    sizes = *std::move(given);
    if (sizes.size() != context.binding.results.size()) {
      context.malformed("{} sizes for {} results", sizes.size(), context.binding.results.size());
    }
    Dim sum = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      context.require_extent(sizes[i], 1, i);
      sum = sum + sizes[i];
    }
    context.require_dim(Relation::Equal, 0, axis, sum);
  } else {
    sizes = equal_parts(context, extent, axis);
  }
  std::int64_t first = 0;
  for (const Dim& size : sizes) {
    TensorType type = operand;
    type.dims[axis] = size;
    ShapeData shape_data;
    const ShapeData& known = context.shape_data(0);
    const std::optional<std::int64_t> length = size.constant();
    if (known && length && *length >= 0 && first >= 0 &&
        first + *length <= static_cast<std::int64_t>(known->size())) {
      shape_data.emplace(known->begin() + first, known->begin() + first + *length);
    }
    first = length && first >= 0 ? first + *length : -1;
    context.add_result(type.dtype, std::move(type.dims), std::move(shape_data));
  }
}

void concat_rule(RuleContext& context) {
  TensorType type = context.tensor(0);
  const std::size_t axis = context.axis(integer_attribute(context.binding, "axis"), type.rank());
  const bool any_known = std::ranges::any_of(context.operands, [](const OperandFacts& facts) {
    return facts.shape_data != nullptr && *facts.shape_data && !(*facts.shape_data)->empty();
  });
  ShapeData shape_data;
  if (type.rank() == 1 && any_known) shape_data.emplace();
  std::vector<Dim> joined;
  for (std::size_t operand = 0; operand < context.operands.size(); ++operand) {
    const TensorType& part = context.tensor(operand);
    context.expect_same_dtype(0, operand);
    context.expect(part.rank() == type.rank(), operand,
                   fmt::format("of rank {} like {}", type.rank(), context.operand_text(0)));
    joined.push_back(part.dims[axis]);
    for (std::size_t i = 0; i < type.rank() && operand > 0; ++i) {
      if (i == axis) continue;
      context.require_dim(Relation::Equal, operand, i, type.dims[i]);
      // The dims must be equal, and a constant tells more.
      if (part.dims[i].is_constant()) type.dims[i] = part.dims[i];
    }
    if (!shape_data) continue;
    // A part that isn't known stands as leaves beside those that are.
    const bool small = is_integer(part.dtype) && tracks_contents(part);
    if (!context.shape_data(operand) && !small) shape_data.reset();
    else {
      const std::vector<Dim> elements =
          context.shape_data(operand) ? *context.shape_data(operand) : context.elements(operand);
      shape_data->insert(shape_data->end(), elements.begin(), elements.end());
    }
  }
  type.dims[axis] = sum(joined);
  if (shape_data && static_cast<std::int64_t>(shape_data->size()) > contents_limit)
    shape_data.reset();
  context.add_result(type.dtype, std::move(type.dims), std::move(shape_data));
}

void overwrite_rule(RuleContext& context) {
  const Binding& binding = context.binding;
  const TensorType& type = context.tensor(0);
  const TensorType& update = context.tensor(1);
  const std::size_t axis = context.axis(integer_attribute(binding, "axis"), type.rank());
  context.expect_same_dtype(0, 1);
  context.expect(update.rank() == type.rank(), 1,
                 fmt::format("of rank {} like {}", type.rank(), context.operand_text(0)));
  for (std::size_t i = 0; i < type.rank(); ++i)
    if (i != axis) context.require_dim(Relation::Equal, 1, i, type.dims[i]);
  const Dim start =
      binding.op == Op::overwrite ? Dim(integer_attribute(binding, "start")) : context.scalar(2);
  if (const auto constant = start.constant(); constant && *constant < 0)
    context.malformed("start is {}; expected at least 0", *constant);
  if (!start.is_constant()) context.require_extent(start, 2, 0);
  const Dim end = start + update.dims[axis];
  if (prove_less_equal(end, type.dims[axis], context.symbols) != Proof::Yes)
    context.require(Relation::GreaterEqual, type.dims[axis], end, dimension_of_operand(axis, 0),
                    "the update to fit");
  context.add_result(type.dtype, type.dims);
}

}  // namespace anydim::ir
