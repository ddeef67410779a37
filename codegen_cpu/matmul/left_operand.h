// The left operand of a matmul as its micro-kernel reads it: in place, or packed into scratch, all
// rows of a task at once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "codegen_cpu/matmul/micro_kernel.h"
#include "codegen_cpu/matmul/packed_once.h"
#include "codegen_cpu/matmul/window_taps.h"
#include "codegen_cpu/matmul/windowed_rows.h"
#include "codegen_cpu/scratch_layout.h"
#include "codegen_cpu/task_split.h"

namespace anydim::codegen_cpu {

class LeftOperand {
 public:
  // Keeps `kernel`, `form` (its left program ends in the product's dtype) and `operands` by
  // reference.
  LeftOperand(KernelBuilder& kernel, const ir::MatmulForm& form, const MatmulSchedule& schedule,
              const MatmulOperands& operands);

  // What rows are cut into tasks by: single ones, or those of an output line, whose windows lie in
  // the same lines of an image.
  ir::Dim unit() const { return windows_ ? windows_->width : 1; }
  ir::Dim units() const;                                                          // of the form
  ir::Dim block_units() const { return schedule_.block_units(units(), unit()); }  // at most
  ir::Dim row_blocks() const { return schedule_.row_blocks(units(), unit()); }
  // Row counts that micro-kernels are called with.
  std::set<std::int64_t> row_counts() const;
  // The fewest blocks of a micro-kernel's rows in a task.
  std::int64_t fewest_blocks() const;
  // Elements between rows, where they are known.
  std::optional<std::int64_t> known_stride() const;
  // How the micro-kernel steps through rows and depth, and its last arguments for a block.
  void describe(MicroKernel& micro) const;
  void add_arguments(Scope& block, const Share& rows, std::vector<llvm::Value*>& arguments) const;

  // Scratch memory, at the kernel's entry; `panel_steps`: steps of a panel.
  void plan(ScratchLayout& scratch, const ir::Dim& panel_steps);
  // Packs a task's rows unless those packed last are the same: those that `key` numbers.
  void pack(Scope& task, const Share& units, llvm::Value* key);
  // The blocks of a micro-kernel's rows of a task that has so many units: body(scope, rows) with
  // rows counted from the task's first.
  void for_blocks(Scope& scope, const Share& units, const BlockBody& body);
  llvm::Value* blocks(Scope& scope, const Share& units);  // their number
  // Where the first of `rows` lies, as for_blocks gives them; the next one is stride() elements
  // behind.
  llvm::Value* pointer(Scope& block, const Share& rows);
  llvm::Value* stride(Scope& block);

 private:
  void read_runs(const std::function<ir::DimLeaf()>& fresh);
  void spread_places();
  ir::Dim row_stride() const;  // of packed rows: whole cache lines
  std::int64_t elements_of_line() const;
  // Whether so many rows, elements apart, find no room in the first-level cache together.
  bool share_sets(std::int64_t stride, std::int64_t rows) const;
  ir::Dim blocks_of_line() const;
  // Whether tasks are whole lines of windows.
  bool in_lines() const { return windows_ && !windows_->sequence; }
  // Whether rows are read where windows are packed. Tile registers read rows that lie dense: each
  // is put together of its runs.
  bool reads_lines() const { return windows_ && !schedule_.tiles; }
  bool copies_rows() const { return windows_ && schedule_.tiles; }
  ir::Dim bytes_of_lines() const;
  void pack(Scope& scope, const Share& units);
  void copy_rows(Scope& scope, const Share& units);
  void find_taps(Scope& scope, const Share& units);
  llvm::Value* panel_of(Scope& scope, llvm::Value* number);

  KernelBuilder& kernel_;
  const ir::MatmulForm& form_;
  const MatmulOperands& operands_;
  MatmulSchedule schedule_;
  std::optional<WindowedRows> windows_;  // whose lines are packed
  std::optional<WindowTaps> taps_;       // of rows that are packed one by one
  bool panels_ = false;                  // packed as a panel for each micro-kernel's rows
  llvm::Value *memory_ = nullptr, *panel_steps_ = nullptr;
  llvm::Value* lines_ = nullptr;      // that rows are read or copied from
  llvm::Value* rounding_ = nullptr;   // a block of elements that are being rounded
  llvm::Value* read_taps_ = nullptr;  // of each block of rows, a bit a tap
  std::optional<PackedOnce> packed_;  // none: rows are read in place
  // What the block being emitted has.
  llvm::Value *line_ = nullptr, *place_ = nullptr;
};

}  // namespace anydim::codegen_cpu
