#include "codegen_cpu/scratch_layout.h"

#include "codegen_cpu/scalars/index_emitter.h"

namespace anydim::codegen_cpu {

ir::Dim whole_lines(const ir::Dim& elements, ir::DType dtype) {
  const std::int64_t line = line_bytes / static_cast<std::int64_t>(ir::size_of(dtype));
  return ir::ceil_div(elements, line) * line;
}

llvm::Value* ScratchLayout::reserve(KernelBuilder& kernel, const ir::Dim& bytes) {
  llvm::Value* offset = emit_index(kernel, kernel.root(), bytes_);
  bytes_ = bytes_ + ir::ceil_div(bytes, line_bytes) * line_bytes;
  auto& builder = kernel.at(kernel.root());
  return builder.CreateInBoundsGEP(builder.getInt8Ty(), kernel.scratch(), offset);
}

}  // namespace anydim::codegen_cpu
