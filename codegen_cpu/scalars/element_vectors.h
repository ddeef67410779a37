// Arrays of one dtype in scratch memory, read and written by whole vectors.
#pragma once

#include <functional>
#include <vector>

#include "codegen_cpu/kernel_builder.h"

namespace anydim::codegen_cpu {

// One value of a vector's lanes, a power of two of them: halves are put together until one lane is
// left. At the kernel's current place.
llvm::Value* reduce_lanes(KernelBuilder& kernel, llvm::Value* vector,
                          const std::function<llvm::Value*(llvm::Value*, llvm::Value*)>& combine);

// Transposes as many vectors as each has lanes, a power of two, at here(): rows become columns.
void transpose(KernelBuilder& kernel, std::vector<llvm::Value*>& rows);

// Vectors as wide as the target's registers. Every operation is emitted at the kernel's current
// place (KernelBuilder::here()). Offsets are i64, in elements; a whole vector lies at a multiple of
// its width.
class ElementVectors {
 public:
  ElementVectors(KernelBuilder& kernel, ir::DType dtype);

  llvm::Type* element() const { return element_; }
  llvm::FixedVectorType* type() const;
  std::int64_t lanes() const { return lanes_; }

  llvm::Value* load(llvm::Value* base, llvm::Value* offset);
  void store(llvm::Value* base, llvm::Value* offset, llvm::Value* vector);
  llvm::Value* load_one(llvm::Value* base, llvm::Value* offset);
  void store_one(llvm::Value* base, llvm::Value* offset, llvm::Value* value);

  llvm::Value* splat(llvm::Value* value);
  // As the processor's maximum: the second where one is NaN.
  llvm::Value* larger(llvm::Value* a, llvm::Value* b);

 private:
  llvm::Align vector_align() const;
  llvm::Align element_align() const;

  KernelBuilder& kernel_;
  ir::DType dtype_;
  llvm::Type* element_;
  std::int64_t lanes_;
};

}  // namespace anydim::codegen_cpu
