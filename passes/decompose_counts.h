// The part of decompose that writes ops whose size only the data tells.
#pragma once

#include <vector>

#include "ir/module.h"

namespace anydim::passes {

// Writes a binding with traits::opens as kernels at its upper bound, a `bind` of the exact count,
// and what reads that many elements. Results keep their ids; new values have no types.
void write_counted(ir::Function& function, const ir::Binding& binding,
                   std::vector<ir::Binding>& into);

}  // namespace anydim::passes
