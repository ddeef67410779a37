#include "codegen_cpu/emitters.h"
#include "codegen_cpu/loops/row_tables.h"
#include "codegen_cpu/loops/shared_steps.h"
#include "codegen_cpu/task_loop.h"

namespace anydim::codegen_cpu {

using ir::Dim;

EmittedKernel emit_map(KernelBuilder& kernel, const ir::MapForm& form,
                       const ir::Schedule& schedule) {
  const auto width = static_cast<unsigned>(schedule.field("vector"));
  const auto unroll = static_cast<unsigned>(schedule.field("unroll"));
  const std::int64_t grain = schedule.field("grain");
  EmittedKernel emitted;
  ScratchLayout scratch;
  for (const ir::MapPart& part : form.parts) {
    std::span<const ir::Iteration> outer(part.space);
    const ir::Iteration none{ir::loop_leaf(ir::LoopRole::Made), Dim(1)};
    const ir::Iteration& run = part.space.empty() ? none : part.space.back();
    if (!outer.empty()) outer = outer.first(outer.size() - 1);
    const std::int64_t turn = std::int64_t{width} * unroll;
    const TaskPlan plan = plan_tasks(outer, run.extent, grain, turn, false);
    const bool whole = ir::divisor(run.extent, kernel.symbols()) % turn == 0;

    Scope& root = kernel.root();
    llvm::Value* before = emit_index(kernel, root, emitted.tasks);
    llvm::Value* count = emit_index(kernel, root, plan.tasks);
    auto& at = kernel.at(root);
    llvm::Value* begin = at.CreateBinaryIntrinsic(
        llvm::Intrinsic::smax, at.CreateSub(kernel.begin(), before), kernel.constant(0));
    llvm::Value* end =
        at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, at.CreateSub(kernel.end(), before), count);
    std::vector<std::int32_t> roots;
    for (const ir::Store& store : part.stores) roots.push_back(store.step);
    llvm::Value* some = at.CreateICmpSLT(begin, end);
    kernel.guarded(root, some, [&](Scope& tasks) {
      ProgramEmitter program(kernel, part.program, tasks, roots);
      RowTables tables(kernel, scratch, program,
                       plan.rows_per_task.is_constant(1)
                           ? std::vector<std::int32_t>()
                           : shared_steps(part, kernel.symbols()).kept,
                       ir::min(plan.length, plan.piece), width);
      const auto range_of = [&](llvm::Value* first, llvm::Value* last, unsigned vectors) {
        return VectorRange{.variable = run.variable,
                           .first = first,
                           .last = last,
                           .width = width,
                           .unroll = vectors,
                           .whole = whole};
      };
      emit_tasks(
          kernel, tasks, outer, plan, begin, end,
          [&](Scope& row, llvm::Value* first, llvm::Value* last) {
            emit_vector_range(kernel, row, range_of(first, last, unroll),
                              [&](Scope& point, unsigned) {
                                tables.give(point, program);
                                for (const ir::Store& store : part.stores)
                                  program.store(point, store);
                              });
          },
          [&](Scope& task, llvm::Value* first, llvm::Value* last) {
            tables.fill(task, program, range_of(first, last, 1));
          });
    });
    emitted.tasks = emitted.tasks + plan.tasks;
  }
  emitted.scratch_bytes = scratch.bytes();
  return emitted;
}

}  // namespace anydim::codegen_cpu
