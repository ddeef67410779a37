// Turns a subgraph of bindings into a region: a body over region-local symbols, and the binding
// that calls it.
#pragma once

#include <span>
#include <vector>

#include "ir/module.h"
#include "passes/stored_values.h"

namespace anydim::passes {

struct Outlined {
  ir::Region region;  // sealed; not yet in a module
  ir::Binding call;   // callee is left to the caller
};

// `bindings` of `function` in topological order compute `outputs`. Inputs are found here, in order
// of first use; those that are stored become the region's weights. Symbols and tensor
// elements that the bindings mention become s0, s1, ... with their ranges.
Outlined outline(const ir::Function& function, std::span<const ir::Binding> bindings,
                 std::span<const ir::ValueId> outputs, const StoredValues& stored);

// Values that the bindings read and do not define, in order of first use.
std::vector<ir::ValueId> inputs_of(std::span<const ir::Binding> bindings);

}  // namespace anydim::passes
