#include "passes/pipeline.h"

#include "passes/lower.h"

namespace anydim::passes {

ir::Program compile_to_program(ir::Module& module, PassContext& context) {
  run_passes(module, context);
  return lower(module, context);
}

}  // namespace anydim::passes
