// A step of a micro-kernel's product, in each of the ways that processors have.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "codegen_cpu/matmul/micro_kernel.h"

namespace anydim::codegen_cpu {

Multiply multiply_of(const Target& target, const Product& product);

// a * b + sum, vectors of the kernel's element.
llvm::Value* emit_multiply_add(llvm::IRBuilder<>& builder, const MicroKernel& kernel,
                               llvm::Value* a, llvm::Value* b, llvm::Value* sum);
// `sum` and the products of all depths of a step: `a` is the left operand's, in every lane, `b` the
// right one's.
llvm::Value* emit_multiply_step(llvm::IRBuilder<>& builder, const MicroKernel& kernel,
                                llvm::Value* a, llvm::Value* b, llvm::Value* sum);

}  // namespace anydim::codegen_cpu
