// Drops bindings whose results nobody reads; checks and binds stay.
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace anydim::passes {

void dead_code(ir::Module& module, PassContext&) {
  for (ir::Function& function : module.functions) drop_dead(function);
}

}  // namespace anydim::passes
