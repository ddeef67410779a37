#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// To a fixpoint: dynamic ops over constants become their static twins, over known dims they read a
// shape literal; integer results with known elements become literals, and what mentions their
// elements, or a symbol that was bound to one, mentions what is known; small results of constants
// are computed; ops that change nothing go away. What stays dynamic is listed in
// PassContext::unresolved with its reason.
void dynamic_to_static(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
