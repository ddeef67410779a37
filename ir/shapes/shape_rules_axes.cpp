// Axes that only the run tells: the rank is known from their number, and every dim becomes a select
// over what they may name.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/shapes/shape_rules.h"

namespace anydim::ir {

bool all_constant(std::span<const Dim> dims) {
  return std::ranges::all_of(dims, [](const Dim& dim) { return dim.is_constant(); });
}

Dim counted_from_front(const Dim& axis, std::size_t rank) {
  return select(Comparison::Less, axis, 0, axis + static_cast<std::int64_t>(rank), axis);
}

std::vector<Dim> named_axes(RuleContext& context, std::size_t operand, std::size_t count,
                            std::size_t rank) {
  const bool dynamic = info(context.binding.op).has(traits::dynamic);
  std::vector<std::int64_t> given(count);
  std::iota(given.begin(), given.end(), 0);
  if (dynamic && context.has(operand)) {
    if (!all_constant(context.elements(operand)))
      return RunTimeAxes(context, operand, rank).from_front();
    given = context.constants(operand, "the axes");
  } else if (!dynamic && has_attribute(context.binding, "axes")) {
    given = integers_attribute(context.binding, "axes");
  }
  std::vector<Dim> axes;
  for (const std::size_t axis : context.axes(given, rank))
    axes.emplace_back(static_cast<std::int64_t>(axis));
  return axes;
}

std::vector<Dim> sizes_by_dimension(std::span<const Dim> sizes, std::span<const Dim> axes,
                                    std::size_t rank) {
  std::vector<Dim> result(rank, Dim(0));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (std::size_t d = 0; d < rank; ++d)
      result[d] =
          select(Comparison::Equal, axes[i], static_cast<std::int64_t>(d), sizes[i], result[d]);
  return result;
}

RunTimeAxes::RunTimeAxes(RuleContext& context, std::size_t operand, std::size_t rank)
    : rank_(rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  const std::vector<Dim> given = context.elements(operand);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string what = fmt::format("element {} of operand {}, the axes", i, operand);
    context.require(Relation::GreaterEqual, given[i], -signed_rank, what);
    context.require(Relation::LessEqual, given[i], signed_rank - 1, what);
    axes_.push_back(counted_from_front(given[i], rank));
    for (std::size_t j = 0; j < i; ++j) {
      context.require(Relation::NonZero, axes_[i] - axes_[j], 0,
                      fmt::format("the difference of axes {} and {}", j, i));
    }
  }
}

Dim RunTimeAxes::choose(std::int64_t dimension, const Dim& named, const Dim& otherwise) const {
  // As many different axes as dimensions name them all.
  if (axes_.size() == rank_) return named;
  Dim result = otherwise;
  for (const Dim& axis : axes_) result = select(Comparison::Equal, axis, dimension, named, result);
  return result;
}

Dim RunTimeAxes::before(std::int64_t dimension) const {
  Dim count = 0;
  for (const Dim& axis : axes_) count = count + select(Comparison::Less, axis, dimension, 1, 0);
  return count;
}

std::vector<Dim> RunTimeAxes::inserted(const std::vector<Dim>& source) const {
  const std::size_t rank = source.size() + axes_.size();
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto position = static_cast<std::int64_t>(i);
    const Dim ahead = before(position);
    Dim kept = 1;
    for (std::size_t j = 0; j < source.size(); ++j) {
      kept = select(Comparison::Equal, ahead, position - static_cast<std::int64_t>(j), source[j],
                    kept);
    }
    dims.push_back(choose(position, 1, kept));
  }
  return dims;
}

std::vector<Dim> RunTimeAxes::removed(const std::vector<Dim>& source) const {
  std::vector<Dim> dims;
  for (std::size_t i = 0; i + axes_.size() < source.size(); ++i) {
    Dim result = 1;
    for (std::size_t j = 0; j < source.size(); ++j) {
      const auto position = static_cast<std::int64_t>(j);
      // Where dimension j ends up; -1 where it goes.
      const Dim place = choose(position, -1, Dim(position) - before(position));
      result = select(Comparison::Equal, place, static_cast<std::int64_t>(i), source[j], result);
    }
    dims.push_back(result);
  }
  return dims;
}

}  // namespace anydim::ir
