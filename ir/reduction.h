// Ops that reduce to a sum, a mean, the largest or smallest element or a product. Internal to ir.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/ops.h"

namespace anydim::ir {

enum class Reduction : std::uint8_t { Sum, Mean, Max, Min, Product };

enum class ReducedOver : std::uint8_t { Axes, RunTimeAxes, Segments };

struct ReductionOp {
  Reduction reduction;
  ReducedOver over;
};

// nullopt where the op is none of them; arg_max and arg_min reduce to a position.
std::optional<ReductionOp> reduction_op(Op op);
// Internal error where the op is none of them.
Reduction reduction_of(Op op);

}  // namespace anydim::ir
