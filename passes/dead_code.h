#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Drops bindings whose results nobody reads; checks and binds stay.
void dead_code(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
