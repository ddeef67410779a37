// Taking a dim apart: along one leaf, or into its parts.
#pragma once

#include <functional>
#include <optional>

#include "ir/dims/dim.h"

namespace anydim::ir {

// dim == stride * leaf + base, where neither mentions the leaf.
struct Affine {
  Dim stride, base;
};

// nullopt where the dim isn't of that form (the leaf inside a division, a power, a choice, ...).
std::optional<Affine> affine_in(const Dim& dim, const DimLeaf& leaf);

// Whether it holds of the dim or of any operand or factor in it.
bool any_part(const Dim& dim, const std::function<bool(const Dim&)>& holds);

// A term of a sum by itself.
Dim as_dim(const Dim::Term& term);

}  // namespace anydim::ir
