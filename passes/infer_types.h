#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Infers every value's type (ir/shapes/infer.h).
void infer_types(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
