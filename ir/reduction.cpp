#include "ir/reduction.h"

#include "ir/error.h"

namespace anydim::ir {

Reduction reduction_of(Op op) {
  switch (op) {
    case Op::reduce_sum:
    case Op::dyn_reduce_sum:
    case Op::segment_sum: return Reduction::Sum;
    case Op::reduce_mean:
    case Op::dyn_reduce_mean: return Reduction::Mean;
    case Op::reduce_max:
    case Op::dyn_reduce_max:
    case Op::segment_max: return Reduction::Max;
    case Op::reduce_min:
    case Op::dyn_reduce_min:
    case Op::segment_min: return Reduction::Min;
    case Op::reduce_prod:
    case Op::dyn_reduce_prod: return Reduction::Product;
    default: internal_error("the op is a reduction");
  }
}

}  // namespace anydim::ir
