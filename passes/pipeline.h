// The way from a module to a program.
#pragma once

#include "ir/program.h"
#include "passes/pass.h"

namespace anydim::passes {

// Runs the pipeline and lowers the result. `module` is left as the pipeline made it, for looking.
// Throws Error{Unsupported} naming the node for what cannot be compiled.
ir::Program compile_to_program(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
