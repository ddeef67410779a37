// Which reduction an op is: static, dynamic and segmented ops of one kind share it. Internal to ir.
#pragma once

#include <cstdint>

#include "ir/ops.h"

namespace anydim::ir {

enum class Reduction : std::uint8_t { Sum, Mean, Max, Min, Product };

// Internal error where the op isn't a reduction.
Reduction reduction_of(Op op);

}  // namespace anydim::ir
