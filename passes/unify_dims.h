// Dims of different inputs that have to agree, as one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"

namespace anydim::passes {

// `symbol` of the inputs' dims is what `dim`, over symbols that are still there, comes to.
struct EqualDim {
  std::string symbol;
  ir::Dim dim;
};

struct UnifiedModule {
  ir::Module module;
  std::vector<EqualDim> equal;  // at least one
};

// `module` before the pipeline. Exporters name each input's dims on their own: a mask of (n, m)
// beside ids of (batch, sequence). Where code that always runs takes two dims only if they are
// equal, or one of them is 1 to be repeated, and one of them is a symbol of the inputs and the
// other made of such symbols, that symbol is written as the other throughout @main, and its range
// and multiple become the other's too. Terms that both dims have do not count, and a dim that is
// the least of a symbol and of the other is taken to be that symbol (a mask that is cut to the
// text). Calls whose inputs do not fit then need the module as it was. Symbols that all stand in
// one of the inputs are left alone. nullopt: there is nothing to unify.
std::optional<UnifiedModule> unify_dims(const ir::Module& module);

}  // namespace anydim::passes
