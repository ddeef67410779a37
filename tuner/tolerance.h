// When a kernel's result is right, and which shapes a region may meet.
#pragma once

#include <string>

#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/tensor.h"

namespace anydim::tuner {

// The tolerance of a real element, relative to its own size and the tensor's mean size: rounding at
// the narrowest float of the region's body, with room for sums in another order.
double tolerance_of(const ir::Region& region);

// Empty where every element agrees (integers and bools bit by bit; NaN with NaN, infinity with
// itself), else the first that does not.
std::string differs(const ir::Tensor& got, const ir::Tensor& want, double tolerance);

// All values that the region's keys may take.
ir::Bucket whole_range(const ir::Region& region);

}  // namespace anydim::tuner
