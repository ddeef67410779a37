// How points of an iteration space become tasks, and the loops over them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "codegen_cpu/kernel_builder.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

// `rows` points of the outer iterations, each with a run of `length` elements: a task is either
// several whole rows or a piece of one.
struct TaskPlan {
  ir::Dim rows;
  ir::Dim length;
  ir::Dim rows_per_task;  // at least 1
  ir::Dim piece;          // elements of a row that one task covers
  ir::Dim pieces;         // of a row
  ir::Dim tasks;
};

// Tasks of about `grain` elements; pieces are multiples of `multiple` elements. Rows are not cut
// where `whole_rows`.
TaskPlan plan_tasks(std::span<const ir::Iteration> outer, const ir::Dim& length,
                    const ir::Dim& grain, std::int64_t multiple, bool whole_rows);

// Runs body for every row piece of tasks [begin, end), with the outer iterations' variables
// defined, on elements [first, last) of the row. `begin` < `end` need not hold; every extent of
// `outer` is at least 1 where it does.
using RowBody = std::function<void(Scope& row, llvm::Value* first, llvm::Value* last)>;
// `before`: for what all rows of a task have in common, none of which is defined there; not called
// where plan.rows_per_task is 1.
void emit_tasks(KernelBuilder& kernel, Scope& scope, std::span<const ir::Iteration> outer,
                const TaskPlan& plan, llvm::Value* begin, llvm::Value* end, const RowBody& body,
                const RowBody& before = {});

// The same for whole rows, `together` of them at once where a task has so many left, else one: each
// has a scope of its own in one block.
using RowGroupBody = std::function<void(std::span<Scope* const> rows)>;
void emit_row_groups(KernelBuilder& kernel, Scope& scope, std::span<const ir::Iteration> outer,
                     const TaskPlan& plan, std::int64_t together, const RowGroupBody& body);

// A range of one iteration, gone over in vectors. The rest that fills no whole turn comes vector by
// vector, the last one under a mask, or element by element (width 1) where the target has no masked
// memory access.
struct VectorRange {
  ir::DimLeaf variable;
  llvm::Value* first = nullptr;
  llvm::Value* last = nullptr;
  unsigned width = 1;
  unsigned unroll = 1;
  bool whole = false;  // last - first is known to be a multiple of width * unroll
  bool flat = false;   // where the range is of a known length that is short, no loop is made
};
// Vectors that one turn of the loop is to compute.
struct VectorTurn {
  struct Vector {
    llvm::Value* position = nullptr;  // of lane 0
    Lanes lanes;
  };
  ir::DimLeaf variable;
  std::vector<Vector> vectors;  // `unroll`, or one of what is left over
  // Sets the variable and the lanes of a vector in a scope of its own.
  void enter(Scope& own, std::size_t vector) const;
};
void emit_vector_turns(KernelBuilder& kernel, Scope& scope, const VectorRange& range,
                       const std::function<void(Scope& turn, const VectorTurn&)>& body);
// The same with a scope for each vector, which `copy` tells apart within a turn.
void emit_vector_range(KernelBuilder& kernel, Scope& scope, const VectorRange& range,
                       const std::function<void(Scope&, unsigned copy)>& body);

// Runs body on [first, from) and [to, last), what lies on both sides of [from, to): in one loop, as
// code of borders is long.
void emit_both_sides(KernelBuilder& kernel, Scope& scope, llvm::Value* first, llvm::Value* from,
                     llvm::Value* to, llvm::Value* last, const RowBody& body);

}  // namespace anydim::codegen_cpu
