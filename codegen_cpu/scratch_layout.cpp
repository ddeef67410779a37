#include "codegen_cpu/scratch_layout.h"

#include "codegen_cpu/scalars/index_emitter.h"

namespace anydim::codegen_cpu {

llvm::Value* ScratchLayout::reserve(KernelBuilder& kernel, const ir::Dim& bytes) {
  llvm::Value* offset = emit_index(kernel, kernel.root(), bytes_);
  bytes_ = bytes_ + ir::ceil_div(bytes, 64) * 64;
  auto& builder = kernel.at(kernel.root());
  return builder.CreateInBoundsGEP(builder.getInt8Ty(), kernel.scratch(), offset);
}

}  // namespace anydim::codegen_cpu
