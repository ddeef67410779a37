// Steps that rows share (loops/shared_steps.h), computed once a task.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen_cpu/scalars/scalar_emitter.h"
#include "codegen_cpu/scratch_layout.h"
#include "codegen_cpu/task_loop.h"

namespace anydim::codegen_cpu {

// Arrays in a worker's scratch memory, an element for each point of a task's part of a row.
class RowTables {
 public:
  // At most `length` points, which vectors of `width` lanes run over.
  RowTables(KernelBuilder& kernel, ScratchLayout& layout, const ProgramEmitter& program,
            const std::vector<std::int32_t>& kept, const ir::Dim& length, unsigned width);

  bool empty() const { return tables_.empty(); }
  // For the rows of a task, whose points are those of `range`.
  void fill(Scope& task, ProgramEmitter& program, const VectorRange& range);
  // The steps are what the tables hold from now on in `point`, which defines the variable of the
  // range that they were filled for.
  void give(Scope& point, const ProgramEmitter& program) const;

 private:
  struct Table {
    std::int32_t step = 0;
    bool is_index = false;           // a checked one
    llvm::Type* stored = nullptr;    // an element in scratch memory
    llvm::Type* computed = nullptr;  // in a register
    llvm::Value* base = nullptr;
  };

  llvm::Value* place(Scope& point, const Table& table) const;

  KernelBuilder& kernel_;
  std::vector<Table> tables_;
  ir::DimLeaf variable_{};
  llvm::Value* first_ = nullptr;  // of the range
};

}  // namespace anydim::codegen_cpu
