#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Matrices of all heads in one batch, as exporters write them for a product of three dims, become
// matrices of a batch of heads: between a reshape that joins the first two dims and one that parts
// them again, ops work on both dims, and the reshapes are left for simplify_views.
void split_batches(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
