// Weights of 8-bit integers less their zero points, made real, as integers of one byte that are
// converted at once: what products read, which make a weight real while they multiply.
#pragma once

#include "ir/module.h"
#include "passes/pass.h"

namespace anydim::passes {

// Weights are constants, so that the differences are: they are written where they lie in i8 for
// certain, unless both are in 4 bits alone. Else weights and zero points of u8 become i8, and those
// of 4 bits as well. Results are the same numbers. Types must be inferred; they are inferred again.
void centre_weights(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
