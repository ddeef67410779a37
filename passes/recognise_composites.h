#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Gives the names gelu, gelu_tanh, layer_norm, softmax and attention to the ways exporters write
// them out. Patterns match on ops and result types, in any order of commuting operands; what they
// leave behind is dropped. One file a pattern: match_<name>.cpp.
void recognise_composites(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
