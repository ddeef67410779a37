#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Bindings of equal op, operands, attributes and dims become one. Large constants are equal where
// they share memory or origin.
void common_subexpressions(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
