// The right operand of a matmul as its micro-kernel reads it: panels of a weight that was packed
// for all calls, or panels that are packed or unpacked into scratch.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "codegen_cpu/matmul/packed_once.h"
#include "codegen_cpu/scratch_layout.h"

namespace anydim::codegen_cpu {

class RightOperand {
 public:
  // Keeps `kernel`, `form` and `operands` by reference.
  RightOperand(KernelBuilder& kernel, const ir::MatmulForm& form, const MatmulSchedule& schedule,
               const MatmulOperands& operands);

  // A scaled weight is made real group by group, or by the micro-kernel.
  bool unpacks() const { return operands_.product.scaled() && schedule_.unpack; }
  bool multiplies_bytes() const { return operands_.scales && !unpacks(); }
  // As large as a step of it: an accumulator's, but for bytes that are made real.
  ir::DType step_dtype() const;
  ir::Dim packed_steps() const;                   // of panels that kernels pack
  ir::Dim steps() const;                          // of panels that micro-kernels read
  ir::Dim rounded(const ir::Dim& columns) const;  // to whole panels
  // Whether groups of columns pass under row blocks.
  bool rows_outermost() const;

  // Columns of a task, counted from the form's first.
  struct Columns {
    llvm::Value *first, *count;
  };
  // Scratch memory and what is the same for every task, at the kernel's entry.
  void plan(Scope& root, ScratchLayout& scratch);
  // Packs a task's columns, of every gate, unless those packed last are the same: those that the
  // task's block of columns numbers among all of a batch point.
  void pack(Scope& task, const Columns& columns, llvm::Value* number);
  // Makes the panels of a group real that begins at this column; one that is less than a panel has
  // all of it.
  void unpack(Scope& group, llvm::Value* column, llvm::Value* width);
  // Where the panels lie, of one gate, that begin at column `offset` of the task.
  llvm::Value* panels(Scope& group, const Columns& task, llvm::Value* offset, std::int64_t gate);
  // Elements between panels.
  llvm::Value* panel_stride(Scope& scope) const;
  llvm::Value* step_count() const { return steps_; }
  llvm::Value* packed_step_count() const { return packed_steps_; }

 private:
  ir::Dim block_columns() const;
  void pack_gate(Scope& scope, const Columns& columns, std::int64_t gate);
  void define_gate(Scope& scope, std::int64_t gate) const;
  llvm::Value* memory_of(Scope& scope, std::int64_t gate) const;

  KernelBuilder& kernel_;
  const ir::MatmulForm& form_;
  const MatmulOperands& operands_;
  MatmulSchedule schedule_;
  std::int64_t panel_;                                        // columns of one
  llvm::Value *memory_ = nullptr, *gate_elements_ = nullptr;  // scratch; of one gate in it
  llvm::Value *steps_ = nullptr, *packed_steps_ = nullptr;
  std::optional<PackedOnce> packed_;  // none: of a weight
};

}  // namespace anydim::codegen_cpu
