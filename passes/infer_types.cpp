// Infers every value's type (ir/shapes/infer.h).
#include "ir/shapes/infer.h"
#include "passes/pass.h"

namespace anydim::passes {

void infer_types(ir::Module& module, PassContext& context) {
  for (const std::string& warning : ir::infer_types(module).warnings)
    if (context.options.warn) context.options.warn(warning);
}

}  // namespace anydim::passes
