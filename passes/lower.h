// The last step: a module of regions becomes a flat program.
#pragma once

#include "ir/program.h"
#include "passes/pass.h"

namespace anydim::passes {

// Takes what `fuse` leaves: regions with a dispatch table each, constants, checks, control flow and
// what makes and takes apart lists, tuples and function values. Inputs and outputs of the entry are
// tensors, and its outputs distinct. Error{Unsupported} names the node of anything else.
//
// Each function becomes one flat list of instructions, blocks parts of it with jumps. Every size
// becomes a slot of a shape stage. A new stage begins with a block, and where a size needs elements
// of a tensor that was computed before, which are then fetched. Checks are tested in the first
// stage that knows all their leaves.
ir::Program lower(const ir::Module& module, const PassContext& context);

}  // namespace anydim::passes
