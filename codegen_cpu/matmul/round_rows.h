// Rows of a product's left operand rounded to bytes block by block, for weights of which each block
// has a scale too (MatmulForm::left_block).
#pragma once

#include <cstdint>

#include "codegen_cpu/kernel_builder.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

// Bytes in front of each block of a row: its scale, and the scale times the sum of its integers,
// both f32.
inline constexpr std::int64_t rounded_block_head = 8;

// to[r * row_stride ..], r in [0, rows), is block after block of row first_row + r, each behind its
// head. With m the largest magnitude of a block, its scale is m / 127, and an element x is stored
// as the integer closest to x * (127 / m), halves to even. A block with what is no finite number
// has a scale that is none.
struct RoundRows {
  const ir::ScalarProgram& program;  // of f32
  ir::DimLeaf row;
  ir::Iteration inner;     // whole blocks
  std::int64_t block = 0;  // whole vectors
  llvm::Value* first_row = nullptr;
  llvm::Value* rows = nullptr;    // at least 1
  llvm::Value* memory = nullptr;  // a block of f32
  llvm::Value* to = nullptr;
  ir::Dim row_stride;  // bytes
};
void emit_round_rows(KernelBuilder& kernel, Scope& scope, const RoundRows& round);

}  // namespace anydim::codegen_cpu
