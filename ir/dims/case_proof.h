// Proofs under conditions, by cases.
#pragma once

#include <vector>

#include "ir/dims/dim.h"
#include "ir/dims/symbols.h"

namespace anydim::ir {

// Whether a <= b wherever every one of `assumed` is >= 0. Knows what ranges prove, takes select,
// broadcast, min and max by cases (broadcast(a, b) says that a == b, or one of them is 1), and what
// a quotient's dividend must be. False: it may hold or not.
bool proven_less_equal(const Dim& a, const Dim& b, const std::vector<Dim>& assumed,
                       const SymbolTable& symbols);
bool proven_less(const Dim& a, const Dim& b, const std::vector<Dim>& assumed,
                 const SymbolTable& symbols);

}  // namespace anydim::ir
