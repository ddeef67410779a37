// The last step: a module of regions becomes a flat program.
#pragma once

#include "ir/program.h"
#include "passes/pass.h"

namespace anydim::passes {

// The entry function must hold regions, large constants and check_shape only, with distinct results
// that regions compute (what fuse leaves); Error{Unsupported} names the node otherwise. Every size
// becomes a slot of a shape stage: a new stage starts where a launch needs elements of a tensor
// that an earlier launch computed, which is then fetched. Requirements of the context become checks
// of the first stage that knows all their leaves.
ir::Program lower(const ir::Module& module, const PassContext& context);

}  // namespace anydim::passes
