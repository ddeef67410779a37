// Concatenations that nothing copies.
#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// What is concatenated along an axis of known extents is written where it lies in the whole: each
// operand that a kernel computes becomes the update of an overwrite in place (ir/ops.def), which
// the kernel ends with; what else reads the operand reads its part of the whole. A concatenation of
// operands that lie beside each other in a later one's whole (a dense block's) is a part of that.
// Operands that nothing computes before are copied as they were. Left alone are results of the
// function, narrow parts, whose elements fill no vector, and operands that are computed long before
// the others: memory for the whole would wait for them. Only the bodies of functions, and only
// where the backend's kernels write parts (Backend::writes_parts). Types must be inferred.
void concat_in_place(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
