// Taking a dim apart along one leaf.
#pragma once

#include <optional>

#include "ir/dims/dim.h"

namespace anydim::ir {

// dim == stride * leaf + base, where neither mentions the leaf.
struct Affine {
  Dim stride, base;
};

// nullopt where the dim isn't of that form (the leaf inside a division, a power, a choice, ...).
std::optional<Affine> affine_in(const Dim& dim, const DimLeaf& leaf);

// A term of a sum by itself.
Dim as_dim(const Dim::Term& term);

}  // namespace anydim::ir
