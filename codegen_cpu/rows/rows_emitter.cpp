#include "codegen_cpu/emitters.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/rows/interior_range.h"
#include "codegen_cpu/rows/rows_schedule.h"
#include "codegen_cpu/rows/window_emitter.h"
#include "codegen_cpu/scratch_layout.h"
#include "codegen_cpu/segments.h"
#include "codegen_cpu/task_loop.h"
#include "ir/loops/segment_rows.h"

namespace anydim::codegen_cpu {

namespace {

// What of an interior whole vectors of [first, last) cover.
InteriorRange inner_vectors(KernelBuilder& kernel, Scope& task, const ir::RowInterior& interior,
                            llvm::Value* first, llvm::Value* last, std::int64_t width) {
  const InteriorRange free = interior_range(kernel, task, interior);
  auto& at = kernel.at(task);
  const auto smaller = [&](llvm::Value* a, llvm::Value* b) {
    return at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  };
  const auto distance = [&](llvm::Value* from, llvm::Value* to) {
    return at.CreateBinaryIntrinsic(llvm::Intrinsic::smax, at.CreateSub(to, from),
                                    kernel.constant(0));
  };
  const auto whole = [&](llvm::Value* count) {  // vectors' elements, not more than count
    return at.CreateSub(count, at.CreateURem(count, kernel.constant(width)));
  };
  llvm::Value* before =
      whole(at.CreateAdd(distance(first, free.first), kernel.constant(width - 1)));
  llvm::Value* from = smaller(at.CreateAdd(first, before), last);
  return {from, at.CreateAdd(from, whole(distance(from, smaller(free.last, last))))};
}

}  // namespace

EmittedKernel emit_form(KernelBuilder& kernel, const ir::RowForm& form,
                        const ir::Schedule& chosen) {
  const RowsSchedule schedule = RowsSchedule::from(chosen);
  const auto width = static_cast<unsigned>(schedule.vector);
  const auto unroll = static_cast<unsigned>(schedule.unroll);
  const bool lanes_are_rows = schedule.across && form.outer.size() > (form.segments ? 1 : 0);

  if (lanes_are_rows && schedule.together > 1)
    if (const auto window = shared_window(form))
      return emit_windows(kernel, form, schedule, *window);

  const Dim inner_count = ir::points_of(form.inner);
  ScratchLayout layout;
  const auto reserve = [&] {
    std::vector<llvm::Value*> scratch;
    for (const ir::DType dtype : form.scratch) {
      const auto bytes = static_cast<std::int64_t>(ir::size_of(dtype)) *
                         (lanes_are_rows ? std::int64_t{width} : 1);
      scratch.push_back(layout.reserve(kernel, inner_count * bytes));
    }
    return scratch;
  };
  const std::vector<llvm::Value*> scratch = reserve();

  const auto with = [&](const std::vector<ir::RowStage>& stages) {
    return RowStages{
        .inner = form.inner,
        .stages = stages,
        .scratch = form.scratch,
        .accumulators = form.accumulators,
        .scratch_bases = scratch,
        .width = lanes_are_rows ? 1 : width,
        .unroll = lanes_are_rows ? 1 : unroll,
        .segments = form.segments ? &*form.segments : nullptr,
        .segment_variable = form.segments ? form.outer.front().variable : ir::DimLeaf()};
  };
  const RowStages stages = with(form.stages);

  if (form.segments) check_offsets(kernel, *form.segments, form.inner.front().extent);
  std::span<const ir::Iteration> outer(form.outer);
  if (!lanes_are_rows) {
    const TaskPlan plan =
        plan_tasks(outer, form.segments ? Dim(ir::typical_segment_rows) : inner_count,
                   schedule.grain, 1, true);
    if (schedule.together > 1 && !form.segments && !outer.empty()) {
      std::vector<RowStages> rows{stages};
      for (std::int64_t i = 1; i < schedule.together; ++i) {
        rows.push_back(stages);
        rows.back().scratch_bases = reserve();
      }
      emit_row_groups(kernel, kernel.root(), outer, plan, schedule.together,
                      [&](std::span<Scope* const> group) { emit_row_stages(kernel, group, rows); });
      return {plan.tasks, layout.bytes()};
    }
    emit_tasks(
        kernel, kernel.root(), outer, plan, kernel.begin(), kernel.end(),
        [&](Scope& row, llvm::Value*, llvm::Value*) { emit_row_stages(kernel, row, stages); });
    return {plan.tasks, layout.bytes()};
  }
  const ir::Iteration& across = outer.back();
  outer = outer.first(outer.size() - 1);
  const TaskPlan plan = plan_tasks(outer, across.extent, schedule.grain, width, false);
  const bool whole = ir::divisor(across.extent, kernel.symbols()) % width == 0;
  const auto emit_range = [&](Scope& scope, llvm::Value* first, llvm::Value* last,
                              bool whole_vectors, const RowStages& computed) {
    const VectorRange range{.variable = across.variable,
                            .first = first,
                            .last = last,
                            .width = width,
                            .unroll = 1,
                            .whole = whole_vectors};
    emit_vector_range(kernel, scope, range,
                      [&](Scope& row, unsigned) { emit_row_stages(kernel, row, computed); });
  };
  const std::optional<ir::RowInterior> interior =
      width > 1 ? ir::row_interior(form, kernel.symbols()) : std::nullopt;
  emit_tasks(kernel, kernel.root(), outer, plan, kernel.begin(), kernel.end(),
             [&](Scope& task, llvm::Value* first, llvm::Value* last) {
               if (!interior) return emit_range(task, first, last, whole, stages);
               const InteriorRange inner =
                   inner_vectors(kernel, task, *interior, first, last, width);
               emit_both_sides(kernel, task, first, inner.first, inner.last, last,
                               [&](Scope& side, llvm::Value* from, llvm::Value* to) {
                                 emit_range(side, from, to, whole, stages);
                               });
               emit_range(task, inner.first, inner.last, true, with(interior->stages));
             });
  return {plan.tasks, layout.bytes()};
}

}  // namespace anydim::codegen_cpu
