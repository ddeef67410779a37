#include "codegen_cpu/emitters.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/scratch_layout.h"
#include "codegen_cpu/segments.h"
#include "codegen_cpu/task_loop.h"

namespace anydim::codegen_cpu {

using ir::Dim;

EmittedKernel emit_rows(KernelBuilder& kernel, const ir::RowForm& form,
                        const ir::Schedule& schedule) {
  const auto width = static_cast<unsigned>(schedule.field("vector"));
  const auto unroll = static_cast<unsigned>(schedule.field("unroll"));
  const std::int64_t grain = schedule.field("grain");
  const bool lanes_are_rows =
      schedule.field("across") != 0 && form.outer.size() > (form.segments ? 1 : 0);

  Dim inner_count(1);
  for (const ir::Iteration& iteration : form.inner) inner_count = inner_count * iteration.extent;
  ScratchLayout layout;
  RowStages stages{.inner = form.inner,
                   .stages = form.stages,
                   .scratch = form.scratch,
                   .accumulators = form.accumulators,
                   .scratch_bases = {},
                   .width = lanes_are_rows ? 1 : width,
                   .unroll = lanes_are_rows ? 1 : unroll,
                   .segments = form.segments ? &*form.segments : nullptr,
                   .segment_variable = form.segments ? form.outer.front().variable : ir::DimLeaf()};
  for (const ir::DType dtype : form.scratch) {
    const auto bytes =
        static_cast<std::int64_t>(ir::size_of(dtype)) * (lanes_are_rows ? std::int64_t{width} : 1);
    stages.scratch_bases.push_back(layout.reserve(kernel, inner_count * bytes));
  }

  if (form.segments) check_offsets(kernel, *form.segments, form.inner.front().extent);
  std::span<const ir::Iteration> outer(form.outer);
  if (!lanes_are_rows) {
    const TaskPlan plan =
        plan_tasks(outer, form.segments ? Dim(typical_segment_rows) : inner_count, grain, 1, true);
    emit_tasks(
        kernel, kernel.root(), outer, plan, kernel.begin(), kernel.end(),
        [&](Scope& row, llvm::Value*, llvm::Value*) { emit_row_stages(kernel, row, stages); });
    return {plan.tasks, layout.bytes()};
  }
  const ir::Iteration& across = outer.back();
  outer = outer.first(outer.size() - 1);
  const TaskPlan plan = plan_tasks(outer, across.extent, grain, width, false);
  const bool whole = ir::divisor(across.extent, kernel.symbols()) % width == 0;
  emit_tasks(kernel, kernel.root(), outer, plan, kernel.begin(), kernel.end(),
             [&](Scope& task, llvm::Value* first, llvm::Value* last) {
               const VectorRange range{.variable = across.variable,
                                       .first = first,
                                       .last = last,
                                       .width = width,
                                       .unroll = 1,
                                       .whole = whole};
               emit_vector_range(kernel, task, range, [&](Scope& row, unsigned) {
                 emit_row_stages(kernel, row, stages);
               });
             });
  return {plan.tasks, layout.bytes()};
}

}  // namespace anydim::codegen_cpu
