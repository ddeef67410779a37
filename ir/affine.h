// Taking a dim apart along one symbol.
#pragma once

#include <optional>
#include <string>

#include "ir/dim.h"

namespace anydim::ir {

// dim == stride * symbol + base, where neither mentions the symbol.
struct Affine {
  Dim stride, base;
};

// nullopt where the dim isn't of that form (the symbol inside a division, a power, a choice, ...).
std::optional<Affine> affine_in(const Dim& dim, const std::string& symbol);

}  // namespace anydim::ir
