// The order of a function's values, which the text form and identities of regions follow.
#pragma once

#include <vector>

#include "ir/module.h"

namespace anydim::ir {

// Values in the order in which their definitions end: parameters, then per binding what its blocks
// define, then its results. Values that nothing defines come last.
std::vector<ValueId> definition_order(const Function& function);

// Gives value order[i] the id i, everywhere in the function. `order` names every value once.
void renumber(Function& function, const std::vector<ValueId>& order);

}  // namespace anydim::ir
