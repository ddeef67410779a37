#include "codegen_cpu/rows/interior_range.h"

#include "codegen_cpu/scalars/index_emitter.h"

namespace anydim::codegen_cpu {

InteriorRange interior_range(KernelBuilder& kernel, Scope& scope, const ir::RowInterior& interior) {
  InteriorRange range{emit_index(kernel, scope, interior.begin),
                      emit_index(kernel, scope, interior.end)};
  for (const ir::Dim& dim : interior.not_negative) {
    llvm::Value* margin = emit_index(kernel, scope, dim);
    auto& at = kernel.at(scope);
    range.last = at.CreateSelect(at.CreateICmpSGE(margin, kernel.constant(0)), range.last,
                                 kernel.constant(0));
  }
  return range;
}

}  // namespace anydim::codegen_cpu
