// Copies operands through their scalar programs into the forms that micro-kernels read.
#pragma once

#include <cstdint>

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/matmul/windowed_rows.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

// to[r * row_stride + i] = program at (first_row + r, i) for r in [0, rows) and i over `inner`.
// Whole vectors are written: row_stride is rounded up to a cache line's elements.
struct PackRows {
  const ir::ScalarProgram& program;  // its last step has `dtype`
  ir::DType dtype{};
  bool zeros_behind = false;  // a row, as far as its last cache line reaches
  ir::DimLeaf row;
  ir::Iteration inner;
  llvm::Value* first_row = nullptr;
  llvm::Value* rows = nullptr;  // at least 1
  llvm::Value* to = nullptr;
  ir::Dim row_stride;
};
void emit_pack_rows(KernelBuilder& kernel, Scope& scope, const PackRows& pack);

// Image lines as a micro-kernel reads windows over them: those for output lines first_line to
// first_line + lines - 1, numbered through all images, one behind the other from `to` on.
struct PackLines {
  const WindowedRows& windows;
  ir::DType dtype{};                                    // of the program's last step
  llvm::Value *first_line = nullptr, *lines = nullptr;  // lines: at least 1
  llvm::Value* to = nullptr;
};
void emit_pack_lines(KernelBuilder& kernel, Scope& scope, const PackLines& pack);
// Number of the first image line, as packed lines of all images are numbered, that output line
// `line` reads.
llvm::Value* first_packed_line(KernelBuilder& kernel, Scope& scope, const WindowedRows& windows,
                               llvm::Value* line);

// Column panels as a micro-kernel reads them, in steps (codegen_cpu/matmul/product.h) of D depths:
// to[(((c / P) * steps + k / D) * P + c % P) * D + k % D] = program at (first_depth + k,
// first_column + c) for c in [0, columns) and k in [0, depths), with P columns in a cache line; 0
// for other k below steps * D. Columns that fill up the last panel hold any value, and P * P steps
// behind the last panel may be written.
struct PackPanels {
  const ir::ScalarProgram& program;
  ir::DType dtype{};
  std::int64_t depths_of_step = 1;  // of 4 bytes where more than 1
  ir::Iteration column, depth;
  llvm::Value *first_column = nullptr, *first_depth = nullptr;
  llvm::Value *columns = nullptr, *depths = nullptr;  // columns: at least 1
  llvm::Value* steps = nullptr;                       // of a panel
  llvm::Value* to = nullptr;
  bool whole_depth = false;  // first_depth is 0 and depths the depth's extent
  // `columns` may be no multiple of a vector though the iteration's extent is
  bool any_columns = false;
  // lies_transposed(columns, depth): read along the depth and turn in registers
  bool transposed = false;
};
void emit_pack_panels(KernelBuilder& kernel, Scope& scope, const PackPanels& pack);
// At here(): the step, of those from `to` on, where a column's first depths lie.
llvm::Value* first_step_of_column(KernelBuilder& kernel, std::int64_t panel, llvm::Value* column,
                                  llvm::Value* steps);

}  // namespace anydim::codegen_cpu
