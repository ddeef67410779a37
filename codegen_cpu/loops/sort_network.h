// Sorting by a network: pairs of entries are put in order at places that no entry decides, so that
// lanes of vectors do it and no branch depends on the data.
#pragma once

#include "codegen_cpu/loops/sort_entries.h"

namespace anydim::codegen_cpu {

// Lanes of a vector of entries.
unsigned sort_lanes(const Target& target);

// Sorts `vectors` (i64, at least 1) whole vectors of entries from `array` on by Batcher's bitonic
// network. It puts the smaller entry at the lower place in every pair, so that for any number of
// vectors those pairs are left out whose upper place there is not.
void emit_sort_network(KernelBuilder& kernel, Scope& scope, const SortEntries& entries,
                       const SortArray& array, llvm::Value* vectors);

}  // namespace anydim::codegen_cpu
