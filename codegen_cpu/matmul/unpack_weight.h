// A weight of i8 made real some panels at a time, for products of many rows: micro-kernels then
// read it as they read one of f32.
#pragma once

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/matmul/matmul_operands.h"

namespace anydim::codegen_cpu {

struct UnpackPanels {
  const MatmulOperands& operands;  // with scales
  std::int64_t panel = 0;          // columns
  llvm::Value* first = nullptr;    // panel
  llvm::Value* panels = nullptr;   // at least 1
  llvm::Value* depth = nullptr;
  llvm::Value* to = nullptr;  // f32, panels of `depth` steps
};
void emit_unpack_panels(KernelBuilder& kernel, Scope& scope, const UnpackPanels& unpack);

// A vector of a scaled product's right operand: integers at `place`, real, less `zeros` where there
// are some (f32, else null). At here().
llvm::Value* emit_real_weights(llvm::IRBuilder<>& builder, llvm::Value* place, unsigned lanes,
                               llvm::Value* zeros);
// The same of depth `depth` of a step in 4 bits (PackedWeight), `step` of i32.
llvm::Value* emit_real_weights_of_4_bits(llvm::IRBuilder<>& builder, llvm::Value* step,
                                         std::int64_t depth, llvm::Value* zeros);
// The integers and offset_of_4_bits of the first four depths of such a step, or of the other four,
// as bytes.
llvm::Value* emit_bytes_of_4_bits(llvm::IRBuilder<>& builder, llvm::Value* step, bool first);

}  // namespace anydim::codegen_cpu
