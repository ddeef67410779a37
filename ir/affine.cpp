#include "ir/affine.h"

namespace anydim::ir {

std::optional<Affine> affine_in(const Dim& dim, const std::string& symbol) {
  const DimLeaf leaf{.symbol = symbol};
  if (!dim.mentions(leaf)) return Affine{.stride = 0, .base = dim};
  // A linear dim is told by its values at 0 and 1, provided that putting them together gives the dim back.
  const Dim base = dim.substitute({{symbol, Dim(0)}});
  const Dim stride = dim.substitute({{symbol, Dim(1)}}) - base;
  if (!(stride * Dim::symbol(symbol) + base == dim)) return std::nullopt;
  return Affine{.stride = stride, .base = base};
}

}  // namespace anydim::ir
