#include <algorithm>
#include <numeric>
#include <utility>

#include "ir/reduction.h"
#include "ir/shapes/shape_rules.h"

namespace anydim::ir {
namespace {

std::vector<std::size_t> all_axes(std::size_t rank) {
  std::vector<std::size_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

bool is_dynamic(const RuleContext& context) {
  return info(context.binding.op).has(traits::dynamic);
}

void reduce_over_run_time_axes(RuleContext& context, bool keep) {
  const std::vector<Dim>& source = context.dims(0);
  const RunTimeAxes axes(context, 1, source.size());
  if (axes.from_front().size() > source.size()) {
    context.malformed("{} axes for {} of rank {}", axes.from_front().size(),
                      context.operand_text(0), source.size());
  }
  std::vector<Dim> dims = source;
  for (std::size_t i = 0; i < dims.size(); ++i)
    dims[i] = axes.choose(static_cast<std::int64_t>(i), 1, dims[i]);
  context.add_result(context.dtype(0), keep ? std::move(dims) : axes.removed(source));
}

std::vector<std::size_t> reduced_axes(const RuleContext& context) {
  const std::size_t rank = context.tensor(0).rank();
  if (is_dynamic(context)) {
    const std::vector<std::int64_t> given =
        context.has(1) ? context.constants(1, "the axes") : std::vector<std::int64_t>{};
    if (!given.empty()) return context.axes(given, rank);
    return integer_attribute(context.binding, "empty_keeps") != 0 ? std::vector<std::size_t>{}
                                                                  : all_axes(rank);
  }
  if (!has_attribute(context.binding, "axes")) return all_axes(rank);
  return context.axes(integers_attribute(context.binding, "axes"), rank);
}

ShapeData reduced_contents(const RuleContext& context, bool reduces) {
  const ShapeData& known = context.shape_data(0);
  const TensorType& type = context.tensor(0);
  if (!known || !is_integer(type.dtype)) return std::nullopt;
  if (!reduces) return known;
  const Reduction reduction = reduction_of(context.binding.op);
  if (reduction == Reduction::Mean ||
      (known->empty() && (reduction == Reduction::Max || reduction == Reduction::Min))) {
    return std::nullopt;
  }
  try {
    std::vector<Dim> elements;
    Dim folded = reduction == Reduction::Sum       ? Dim(0)
                 : reduction == Reduction::Product ? Dim(1)
                                                   : known->front();
    for (const Dim& element : *known) {
      if (reduction == Reduction::Sum) folded = folded + element;
      else if (reduction == Reduction::Product) folded = folded * element;
      else folded = reduction == Reduction::Max ? max(folded, element) : min(folded, element);
    }
    elements.push_back(folded);
    return fitting(type.dtype, std::move(elements), context.symbols);
  } catch (const Error& error) {
    // Overflow wraps in the tensor's arithmetic; the value is then left to the run.
    if (error.kind() != ErrorKind::Inputs) throw;
    return std::nullopt;
  }
}

}  // namespace

void segment_reduce_rule(RuleContext& context) {
  const TensorType& type = context.tensor(0);
  context.expect_rank_at_least(0, 1);
  const bool orders = reduction_of(context.binding.op) != Reduction::Sum;
  context.expect(orders || type.dtype != DType::Bool, 0, "a tensor of numbers");
  std::vector<Dim> dims = type.dims;
  dims.front() = context.segments(1);
  context.add_result(type.dtype, std::move(dims));
}

void reduce_rule(RuleContext& context) {
  const TensorType& type = context.tensor(0);
  const Reduction reduction = reduction_of(context.binding.op);
  const bool orders = reduction == Reduction::Max || reduction == Reduction::Min;
  context.expect(orders || type.dtype != DType::Bool, 0, "a tensor of numbers");
  const bool keep = integer_attribute(context.binding, "keepdims") != 0;
  if (is_dynamic(context) && context.has(1) && !all_constant(context.elements(1)))
    return reduce_over_run_time_axes(context, keep);
  const std::vector<std::size_t> axes = reduced_axes(context);
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < type.rank(); ++i) {
    const bool reduced = std::ranges::find(axes, i) != axes.end();
    if (!reduced) dims.push_back(type.dims[i]);
    else if (keep) dims.emplace_back(1);
  }
  context.add_result(type.dtype, std::move(dims), reduced_contents(context, !axes.empty()));
}

}  // namespace anydim::ir
