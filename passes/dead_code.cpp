#include "passes/dead_code.h"

#include "passes/rewrite.h"

namespace anydim::passes {

void dead_code(ir::Module& module, PassContext&) {
  for (ir::Function& function : module.functions) drop_dead(function);
}

}  // namespace anydim::passes
