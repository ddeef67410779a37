// Padded models compiled to packed execution: the rows that a mask hides are left out of the
// computation.
#pragma once

#include <optional>
#include <string>

#include "ir/module.h"
#include "passes/pass.h"
#include "passes/row_packer.h"

namespace anydim::passes {

struct PackedModule {
  ir::Module module;  // @main over the same parameters (without the mask where ragged) and those
                      // that `plan` names; types inferred
  PackingPlan plan;
};
struct PackingResult {
  std::optional<PackedModule> packed{};
  std::string reason{};  // where there is none: which op or result stands in the way
};

// `module` as run_to_fork() leaves it.
PackingResult remove_padding(const ir::Module& module, PackedForm form);

}  // namespace anydim::passes
