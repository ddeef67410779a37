#include "ir/reduction.h"

#include "ir/error.h"

namespace anydim::ir {

std::optional<ReductionOp> reduction_op(Op op) {
  using enum Reduction;
  using enum ReducedOver;
  switch (op) {  // NOLINT: the others are no reductions
    case Op::reduce_sum: return {{Sum, Axes}};
    case Op::reduce_mean: return {{Mean, Axes}};
    case Op::reduce_max: return {{Max, Axes}};
    case Op::reduce_min: return {{Min, Axes}};
    case Op::reduce_prod: return {{Product, Axes}};
    case Op::dyn_reduce_sum: return {{Sum, RunTimeAxes}};
    case Op::dyn_reduce_mean: return {{Mean, RunTimeAxes}};
    case Op::dyn_reduce_max: return {{Max, RunTimeAxes}};
    case Op::dyn_reduce_min: return {{Min, RunTimeAxes}};
    case Op::dyn_reduce_prod: return {{Product, RunTimeAxes}};
    case Op::segment_sum: return {{Sum, Segments}};
    case Op::segment_max: return {{Max, Segments}};
    case Op::segment_min: return {{Min, Segments}};
    default: return std::nullopt;
  }
}

Reduction reduction_of(Op op) {
  const auto found = reduction_op(op);
  internal_check(found.has_value(), "the op is a reduction");
  return found->reduction;
}

}  // namespace anydim::ir
