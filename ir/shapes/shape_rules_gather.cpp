#include <fmt/format.h>

#include <utility>

#include "ir/shapes/shape_rules.h"

namespace anydim::ir {
namespace {

void expect_indices(const RuleContext& context) {
  context.expect(is_integer(context.dtype(1)), 1, "an integer tensor");
}

// Elements of small data at known positions; one out of range is left to the run, which reports it.
ShapeData gathered_contents(const RuleContext& context) {
  const ShapeData& data = context.shape_data(0);
  const ShapeData& indices = context.shape_data(1);
  if (!data || !indices || context.tensor(0).rank() != 1 || context.tensor(1).rank() > 1)
    return std::nullopt;
  const auto extent = static_cast<std::int64_t>(data->size());
  std::vector<Dim> elements;
  for (const Dim& index : *indices) {
    const std::optional<std::int64_t> position = index.constant();
    if (!position || *position < -extent || *position >= extent) return std::nullopt;
    elements.push_back(
        (*data)[static_cast<std::size_t>(*position < 0 ? *position + extent : *position)]);
  }
  return elements;
}

}  // namespace

void gather_rule(RuleContext& context) {
  expect_indices(context);
  context.expect_rank_at_least(0, 1);
  const TensorType& data = context.tensor(0);
  const std::vector<Dim>& indices = context.dims(1);
  const auto axis = static_cast<std::ptrdiff_t>(
      context.axis(integer_attribute(context.binding, "axis"), data.rank()));
  std::vector<Dim> dims(data.dims.begin(), data.dims.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), data.dims.begin() + axis + 1, data.dims.end());
  context.add_result(data.dtype, std::move(dims), gathered_contents(context));
}

void gather_elements_rule(RuleContext& context) {
  expect_indices(context);
  context.expect_rank_at_least(0, 1);
  const TensorType& data = context.tensor(0);
  const std::vector<Dim>& indices = context.dims(1);
  context.expect(indices.size() == data.rank(), 1,
                 fmt::format("of rank {} like {}", data.rank(), context.operand_text(0)));
  const std::size_t axis = context.axis(integer_attribute(context.binding, "axis"), data.rank());
  for (std::size_t i = 0; i < data.rank(); ++i) {
    if (i != axis) context.require_dim(Relation::LessEqual, 1, i, data.dims[i]);
  }
  context.add_result(data.dtype, indices,
                     data.rank() == 1 ? gathered_contents(context) : std::nullopt);
}

void gather_nd_rule(RuleContext& context) {
  expect_indices(context);
  context.expect_rank_at_least(0, 1);
  context.expect_rank_at_least(1, 1);
  const TensorType& data = context.tensor(0);
  const std::vector<Dim>& indices = context.dims(1);
  const std::int64_t given = integer_attribute(context.binding, "batch_dims");
  if (given < 0 || static_cast<std::size_t>(given) >= std::min(data.rank(), indices.size())) {
    context.malformed("batch_dims {} must be below the ranks {} and {}", given, data.rank(),
                      indices.size());
  }
  const auto batch = static_cast<std::size_t>(given);
  const std::optional<std::int64_t> depth = indices.back().constant();
  if (!depth) {
    context.unsupported("the last dimension of {} is {}, so the rank of the result isn't known",
                        context.operand_text(1), context.text(indices.back()));
  }
  if (*depth < 1 || static_cast<std::size_t>(*depth) > data.rank() - batch) {
    context.malformed("the last dimension of {} must be from 1 to {}, got {}",
                      context.operand_text(1), data.rank() - batch, *depth);
  }
  for (std::size_t i = 0; i < batch; ++i) context.require_dim(Relation::Equal, 1, i, data.dims[i]);
  std::vector<Dim> dims(indices.begin(), indices.end() - 1);
  dims.insert(dims.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(batch) + *depth,
              data.dims.end());
  context.add_result(data.dtype, std::move(dims));
}

}  // namespace anydim::ir
