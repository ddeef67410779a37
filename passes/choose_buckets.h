#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// One region's table, as choose_buckets chooses it. Needs a backend.
ir::DispatchTable choose_table(const ir::Region& region,
                               const std::vector<ir::PolicyChoice>& policies,
                               const PassContext& context);

}  // namespace anydim::passes
