#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Matmuls of one left operand with constant matrices (Q, K and V of a transformer) become one
// matmul over the matrices side by side, followed by slices, which are views. Matrices are joined
// in the orientation that they are stored in. What every product alone goes through next is joined
// too, as far as the products agree: additions of biases, conversions and scales of quantised
// products (passes/join_columns.h).
void merge_products(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
