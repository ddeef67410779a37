// Ops that no single kernel computes, as several that do.
#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// top_k: an argsort that gives the first k positions; the values are gathered. concat of more than
// 32 operands: neighbours are joined first, then what came of them. reduce_max and reduce_min of
// all elements: of rows first. resize of several axes by linear or cubic shares: one axis after the
// other. Types must be inferred; the new values' types are given.
void decompose(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
