#include "passes/infer_types.h"

#include "ir/infer.h"

namespace anydim::passes {

void infer_types(ir::Module& module, PassContext&) { ir::infer_types(module); }

}  // namespace anydim::passes
