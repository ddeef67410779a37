// Groups bindings into regions, each one kernel.
#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Every tensor computation of every function becomes a region; what is left outside are large
// constants, control flow, bind and check_shape. Types must be inferred, shapes literals
// (literal_shapes) and results computed by ops of their own (own_results). In this order:
//  1. products and reductions grow forwards over the chain of single uses that derive_loop_form()
//     accepts (bias, GELU, residual; layer norm where the backend joins rows to products), and take
//     in a conversion of its end to 16 bits, and the largest and smallest element of each of its
//     rows, that other users stand beside;
//  2. from the results backwards, each group takes in its producers: views and widening conversions
//     always (they never exist in memory), element-wise work where no one else reads it and no
//     resampling mixes it, and the cheap arithmetic of an attention mask even where several layers
//     read it; a map that others read later is a second result of the map over the same elements
//     that reads it. Operands of products stay in memory: they are read once for every tile.
// What no result needs is dropped. Equal regions are one region of the module.
void fuse(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
