#include "codegen_cpu/affine.h"

namespace anydim::codegen_cpu {

std::optional<Affine> affine_in(const ir::Dim& dim, const std::string& symbol) {
  const ir::DimLeaf leaf{.symbol = symbol};
  if (!dim.mentions(leaf)) return Affine{.stride = 0, .base = dim};
  // A linear dim is told by its values at 0 and 1, provided that putting them together gives the dim back.
  const ir::Dim base = dim.substitute({{symbol, ir::Dim(0)}});
  const ir::Dim stride = dim.substitute({{symbol, ir::Dim(1)}}) - base;
  if (!(stride * ir::Dim::symbol(symbol) + base == dim)) return std::nullopt;
  return Affine{.stride = stride, .base = base};
}

}  // namespace anydim::codegen_cpu
