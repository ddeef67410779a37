#include "ir/dims/affine.h"

#include <algorithm>

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

bool any_part(const Dim& dim, const std::function<bool(const Dim&)>& holds) {
  const auto within = [&](const Dim& part) { return any_part(part, holds); };
  return holds(dim) || std::ranges::any_of(dim.operands(), within) ||
         std::ranges::any_of(dim.terms(), [&](const Dim::Term& term) {
           return std::ranges::any_of(term.factors, within);
         });
}

Dim as_dim(const Dim::Term& term) {
  Dim product(term.coefficient);
  for (const Dim& factor : term.factors) product = product * factor;
  return product;
}

}  // namespace anydim::ir
