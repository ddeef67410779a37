#pragma once

#include <set>

#include "ir/module.h"

namespace anydim::passes {

// What convolutions of bytes look at, before anything of it is laid out: the processor multiplies
// neighbours of the depth together, which must be channels.
std::set<ir::ValueId> images_of_bytes(const ir::Function& function);

}  // namespace anydim::passes
