#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Fills PassContext::tables, by the module's policies. Symbolic: the one schedule that the backend
// estimates best over samples of the whole range. Bucketed: the range of every key is cut at the
// backend's edges, each cell gets the schedule estimated best at its samples, neighbours with equal
// schedules merge, and a last entry over the whole declared range answers for everything else (and
// is the general kernel that a first start compiles: of schedules that are not much slower, the one
// with the least code). Where PassContext::tuning knows the region, its rows stand in place of the
// cells; rows that don't fit the region, or whose schedule the backend doesn't offer for them, are
// left out. Exact: as bucketed, whose kernels answer first. Library: one entry for regions that the
// device's library computes; others are bucketed where the policy is for all regions, and a region
// named for it throws Error{CommandLine} with the reason. Does nothing without a backend.
void choose_buckets(ir::Module& module, PassContext& context);

// One region's table, as choose_buckets chooses it. Needs a backend.
ir::DispatchTable choose_table(const ir::Region& region,
                               const std::vector<ir::PolicyChoice>& policies,
                               const PassContext& context);

}  // namespace anydim::passes
