#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Operands that decide shapes become `shape(...)` and `dim(...)` literals over the dims that are
// known of them, else over their own elements, so that what reads them needs no tensor but for a
// size. What only computed them is dropped. Types must be inferred.
void literal_shapes(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
