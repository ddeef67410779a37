#include "passes/insert_checks.h"

namespace anydim::passes {

void insert_checks(ir::Module& module, PassContext& context) {
  context.requirements = ir::infer_types(module).functions.at(0).requirements;
}

}  // namespace anydim::passes
