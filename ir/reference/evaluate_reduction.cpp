#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ir/reduction.h"
#include "ir/reference/evaluate_ops.h"

namespace anydim::ir {
namespace {

std::vector<bool> reduced_dimensions(const OpCall& call, std::size_t rank) {
  const Extents axes = call.integers("axes", 1);
  const bool empty_keeps = call.is_dynamic() ? integer_attribute(call.binding, "empty_keeps") != 0
                                             : call.has_integers("axes", 1);
  std::vector<bool> reduced(rank, axes.empty() && !empty_keeps);
  for (const std::size_t axis : call.axes(axes, rank)) reduced[axis] = true;
  return reduced;
}

// For every element of the source its accumulator, in row-major order of the source.
std::vector<std::size_t> targets_of(const Extents& dims, const Extents& kept) {
  const Extents strides = broadcast_strides(kept, dims);
  std::vector<std::size_t> targets;
  targets.reserve(static_cast<std::size_t>(element_count(dims)));
  Extents index(dims.size(), 0);
  std::int64_t target = 0;
  for (std::int64_t remaining = element_count(dims); remaining > 0; --remaining) {
    targets.push_back(static_cast<std::size_t>(target));
    for (std::size_t i = dims.size(); i-- > 0;) {
      target += strides[i];
      if (++index[i] < dims[i]) break;
      target -= strides[i] * dims[i];
      index[i] = 0;
    }
  }
  return targets;
}

double start_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum:
    case Reduction::Mean: return 0;
    case Reduction::Max: return -std::numeric_limits<double>::infinity();
    case Reduction::Min: return std::numeric_limits<double>::infinity();
    case Reduction::Product: return 1;
  }
  internal_error("every reduction has a start");
}

double combined(Reduction reduction, double so_far, double next) {
  switch (reduction) {
    case Reduction::Sum:
    case Reduction::Mean: return so_far + next;
    case Reduction::Max: return std::isnan(so_far) || so_far > next ? so_far : next;
    case Reduction::Min: return std::isnan(so_far) || so_far < next ? so_far : next;
    case Reduction::Product: return so_far * next;
  }
  internal_error("every reduction combines");
}

Tensor reduce_reals(Reduction reduction, const Tensor& source, const Extents& kept,
                    std::int64_t extent) {
  const std::vector<double> elements = load_reals(source);
  const std::vector<std::size_t> targets = targets_of(source.dims(), kept);
  std::vector<double> accumulators(static_cast<std::size_t>(element_count(kept)),
                                   start_of(reduction));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    double& accumulator = accumulators[targets[i]];
    accumulator = combined(reduction, accumulator, elements[i]);
  }
  if (reduction == Reduction::Mean) {
    for (double& accumulator : accumulators) accumulator /= static_cast<double>(extent);
  }
  return store_reals(source.dtype(), kept, accumulators);
}

// Integers in the 64-bit type that holds every value of the dtype; sums and products wrap.
template <typename Integer>
Tensor reduce_integers(Reduction reduction, const Tensor& source, const Extents& kept,
                       std::int64_t extent, Integer lowest, Integer highest) {
  const std::vector<std::size_t> targets = targets_of(source.dims(), kept);
  const Integer start = reduction == Reduction::Max       ? lowest
                        : reduction == Reduction::Min     ? highest
                        : reduction == Reduction::Product ? 1
                                                          : 0;
  std::vector<Integer> accumulators(static_cast<std::size_t>(element_count(kept)), start);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Integer& accumulator = accumulators[targets[i]];
    const auto next = static_cast<Integer>(source.integer_at(static_cast<std::int64_t>(i)));
    const auto unsigned_accumulator = static_cast<std::uint64_t>(accumulator);
    if (reduction == Reduction::Max) accumulator = std::max(accumulator, next);
    else if (reduction == Reduction::Min) accumulator = std::min(accumulator, next);
    else if (reduction == Reduction::Product)
      accumulator = static_cast<Integer>(unsigned_accumulator * static_cast<std::uint64_t>(next));
    else
      accumulator = static_cast<Integer>(unsigned_accumulator + static_cast<std::uint64_t>(next));
  }
  Tensor result(source.dtype(), kept);
  for (std::size_t i = 0; i < accumulators.size(); ++i) {
    Integer value = accumulators[i];
    if (reduction == Reduction::Mean)
      value = extent == 0 ? 0 : value / static_cast<Integer>(extent);
    result.set_integer(static_cast<std::int64_t>(i), static_cast<std::int64_t>(value));
  }
  return result;
}

Tensor reduce(Reduction reduction, const Tensor& source, const Extents& kept, std::int64_t extent) {
  const DType dtype = source.dtype();
  if (is_float(dtype)) return reduce_reals(reduction, source, kept, extent);
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  if (is_signed(dtype)) {
    const std::int64_t highest = static_cast<std::int64_t>(~std::uint64_t{0} >> (65 - bits));
    return reduce_integers<std::int64_t>(reduction, source, kept, extent, -highest - 1, highest);
  }
  const std::uint64_t highest = dtype == DType::Bool ? 1 : ~std::uint64_t{0} >> (64 - bits);
  return reduce_integers<std::uint64_t>(reduction, source, kept, extent, 0, highest);
}

}  // namespace

Results evaluate_reduce(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::vector<bool> reduced = reduced_dimensions(call, source.rank());
  const bool keep = integer_attribute(call.binding, "keepdims") != 0;
  Extents kept = source.dims();
  Extents dims;
  std::int64_t extent = 1;
  for (std::size_t i = 0; i < source.rank(); ++i) {
    if (reduced[i]) {
      extent = element_count({extent, source.dims()[i]});
      kept[i] = 1;
    }
    if (!reduced[i] || keep) dims.push_back(kept[i]);
  }
  return with_dims(call, reduce(reduction_of(call.binding.op), source, kept, extent),
                   std::move(dims));
}

Results evaluate_segment_reduce(const OpCall& call) {
  const Tensor& source = call.operand(0);
  Extents dims = source.dims();
  dims.at(0) = std::max<std::int64_t>(call.operand(1).elements() - 1, 0);
  Tensor result(source.dtype(), dims);
  if (result.elements() == 0) return result;  // where no row is read, no offset is looked at
  const Extents offsets = segment_offsets(call, 1, source.dims()[0]);
  const Extents strides = strides_of(source.dims());
  Extents subgraph = source.dims(), kept = source.dims();
  kept[0] = 1;
  auto to = result.mutable_bytes().begin();
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    subgraph[0] = offsets[i + 1] - offsets[i];
    const Tensor reduced =
        reduce(reduction_of(call.binding.op),
               strided_copy(source, subgraph, strides, offsets[i] * strides[0]), kept, subgraph[0]);
    to = std::ranges::copy(reduced.bytes(), to).out;
  }
  return result;
}

}  // namespace anydim::ir
