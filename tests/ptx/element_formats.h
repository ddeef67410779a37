// The types of PTX that tensor-core operands take.
#pragma once

#include <optional>

#include "tests/ptx/syntax.h"
#include "tests/ptx/units/fragment.h"

namespace anydim::ptx {

// Empty for types that none of them takes.
std::optional<ElementFormat> element_format(Type type);

}  // namespace anydim::ptx
