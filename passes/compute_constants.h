// What depends on constants alone is computed when the module is compiled, in loops and branches
// too: projected tables, normalised weights, sums of biases, sines of positions, sums over the
// weights that a loop multiplies by. PassContext::compute does it.
#pragma once

#include "ir/module.h"
#include "passes/pass.h"

namespace anydim::passes {

// A value is computed where it takes a product, a reduction or a function such as exp or sin, or
// where it is no larger than the largest constant behind it; views, what fills and what widens
// stays in its kernel, but for views that a loop or branch reads from before it and those of a
// product's operand whose elements no strides tell; and so does what would make the results
// together larger than the constants that the module has. Integers that are made real are computed
// where that takes little, and operands of products that are made of narrower constants at any
// size, but for bytes that products make real themselves. Does nothing without
// PassContext::compute.
void compute_constants(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
