// The gate of `--executor graph`.
#pragma once

#include "ir/program.h"

namespace anydim::passes {

// Passes programs whose sizes are all constants: no control flow, nothing fetched, no shape code,
// no check. Throws Error{Unsupported} for any other, naming the first op that is not static, its
// dims and its source node.
void require_static(const ir::Program& program);

}  // namespace anydim::passes
