#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// A result of the module that is a parameter, a stored constant, a checked view or another result
// is copied, so that each is computed by an op of its own. Types must be inferred.
void own_results(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
