// Axes that only the run tells: the rank is known from their number, and every dim becomes a select
// over what they may name.
#include <fmt/format.h>

#include <algorithm>

#include "ir/shapes/shape_rules.h"

namespace anydim::ir {

bool all_constant(std::span<const Dim> dims) {
  return std::ranges::all_of(dims, [](const Dim& dim) { return dim.is_constant(); });
}

RunTimeAxes::RunTimeAxes(RuleContext& context, std::size_t operand, std::size_t rank)
    : rank_(rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  const std::vector<Dim> given = context.elements(operand);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string what = fmt::format("element {} of operand {}, the axes", i, operand);
    context.require(Relation::GreaterEqual, given[i], -signed_rank, what);
    context.require(Relation::LessEqual, given[i], signed_rank - 1, what);
    axes_.push_back(select(Comparison::Less, given[i], 0, given[i] + signed_rank, given[i]));
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
