// Modules made from a string of bytes, for properties of the text form. They print and parse, but
// need not verify.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace anydim::ir::test {

// Every choice takes one byte; past the end all choices are 0, so that shorter strings give smaller
// modules.
Module random_module(const std::vector<std::uint8_t>& choices);

}  // namespace anydim::ir::test
