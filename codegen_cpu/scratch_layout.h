// Parts of a worker's scratch memory.
#pragma once

#include "codegen_cpu/kernel_builder.h"

namespace anydim::codegen_cpu {

// Elements that fill the cache lines which so many take.
ir::Dim whole_lines(const ir::Dim& elements, ir::DType dtype);

class ScratchLayout {
 public:
  // Address of the next `bytes` (over region symbols), aligned to a line; computed at the kernel's
  // entry.
  llvm::Value* reserve(KernelBuilder& kernel, const ir::Dim& bytes);
  // All parts together take so many.
  const ir::Dim& bytes() const { return bytes_; }

 private:
  ir::Dim bytes_;
};

}  // namespace anydim::codegen_cpu
