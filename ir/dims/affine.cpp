#include "ir/dims/affine.h"

namespace anydim::ir {

std::optional<Affine> affine_in(const Dim& dim, const DimLeaf& leaf) {
  if (!dim.mentions(leaf)) return Affine{.stride = 0, .base = dim};
  // A linear dim is told by its values at 0 and 1, provided that putting them together gives the
  // dim back.
  const Dim base = dim.substitute(std::map<DimLeaf, Dim>{{leaf, Dim(0)}});
  const Dim stride = dim.substitute(std::map<DimLeaf, Dim>{{leaf, Dim(1)}}) - base;
  if (!(stride * Dim::of(leaf) + base == dim)) return std::nullopt;
  return Affine{.stride = stride, .base = base};
}

Dim as_dim(const Dim::Term& term) {
  Dim product(term.coefficient);
  for (const Dim& factor : term.factors) product = product * factor;
  return product;
}

}  // namespace anydim::ir
