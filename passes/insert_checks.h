#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Puts what inference could neither prove nor refute into PassContext::requirements: lowered code checks it before the launch that relies on it.
void insert_checks(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
