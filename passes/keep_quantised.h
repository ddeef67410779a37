// Quantised values that stay integers: what only chooses among tensors of 8-bit integers made real
// (max pooling) chooses among the integers, and what is quantised again by the same scale and zero
// point is the integers that it was.
#pragma once

#include "ir/module.h"
#include "passes/pass.h"

namespace anydim::passes {

// Results are the same numbers. Types must be inferred; they are inferred again.
void keep_quantised(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
