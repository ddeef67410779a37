// What a matmul fetches into caches for a tile, besides the right operand: lines of results and of
// what the epilogue reads, which would else be met one after the other, and rows of the left
// operand, which are read a line of each in turn and so are no stream that a processor fetches by
// itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/matmul/micro_kernel.h"
#include "codegen_cpu/scalars/scalar_emitter.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

class TileFetches {
 public:
  // Keeps both by reference.
  TileFetches(KernelBuilder& kernel, const ir::MatmulForm& form);

  // Has the micro-kernel fetch while it multiplies, where it can. `left_row`: bytes of a row of the
  // left operand, where rows lie in place without gaps and a task has several blocks of them.
  void plan(MicroKernel& micro, std::optional<std::int64_t> left_row);

  struct Tile {
    llvm::Value *row, *rows;      // the first one, of the form, and how many
    llvm::Value* column;          // the first one, of the form
    llvm::Value* in_first_group;  // i1: the first columns of the task
    llvm::Value* left;            // the left operand's first row
    std::int64_t columns;
  };
  // Before the micro-kernel is called for a tile: adds its arguments behind ahead_step
  // (codegen_cpu/matmul/micro_kernel.h), and fetches what it does not fetch itself in a burst.
  // `epilogue` places the steps of the form's epilogue.
  void emit(Scope& block, ProgramEmitter& epilogue, const Tile& tile,
            std::vector<llvm::Value*>& arguments);

 private:
  // A tensor that is read or written beside a tile, line after line of each row.
  struct Beside {
    llvm::Value* base;
    ir::DType dtype;
    ir::Dim offset;  // of the epilogue: its steps under their own names
    bool written;
  };
  llvm::Value* place(Scope& block, ProgramEmitter& epilogue, const Beside& beside, llvm::Value* row,
                     llvm::Value* column);
  void burst(Scope& block, ProgramEmitter& epilogue, const Tile& tile);

  KernelBuilder& kernel_;
  const ir::MatmulForm& form_;
  std::vector<Beside> beside_;
  bool in_micro_kernel_ = false;  // what lies beside
  std::optional<std::int64_t> left_row_;
};

}  // namespace anydim::codegen_cpu
