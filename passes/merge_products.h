#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Matmuls of one left operand with constant matrices (Q, K and V of a transformer) become one matmul over the matrices side by side, followed by slices,
// which are views. Matrices are joined in the orientation that they are stored in. Where every product goes only to the addition of a constant vector,
// the vectors are joined too.
void merge_products(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
