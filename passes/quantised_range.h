// Activations that are quantised by the range of their elements.
#pragma once

#include "ir/module.h"

namespace anydim::passes {

// Whether `extreme`, a reduce_max or reduce_min of a whole tensor, does nothing but choose the
// scale and zero point by which that tensor is quantised (round(x / scale) + zero point) and made
// real again: what elements of other rows are then changes no row by more than rounding does.
bool is_quantised_range(const ir::Function& function, const ir::Block& block,
                        const ir::Binding& extreme);

}  // namespace anydim::passes
