// Groups bindings into regions, each one kernel.
#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Every tensor computation of every function becomes a region; what is left outside are large
// constants, control flow, bind and check_shape. Types must be inferred, shapes literals
// (literal_shapes) and results computed by ops of their own (own_results). Block by block, nested
// ones first: anchors grow forwards (grow_products.h), from the results backwards each kernel takes
// in its producers (collect_kernels.h), and kernels become regions (make_regions.h). Equal regions
// are one region of the module.
void fuse(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
