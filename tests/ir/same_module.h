// Structural equality of modules, up to the numbering of values, for tests.
#pragma once

#include <string>

#include "ir/module.h"

namespace anydim::ir::test {

// Empty where they are equal, else what differs first.
std::string difference(const Module& left, const Module& right);

}  // namespace anydim::ir::test
