#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// What inference could neither prove nor refute becomes a binding that holds it at run time, in the
// block that relies on it: `check`, and at calls one `check_shape` for every argument and demand.
void insert_checks(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
