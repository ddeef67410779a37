#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Keeps the results that PipelineOptions::outputs names, in that order; an unknown name is
// Error{CommandLine} listing the model's outputs.
void select_outputs(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
