// Rows whose points depend on those before them: running sums and scatters.
#include "codegen_cpu/emitters.h"
#include "codegen_cpu/loops/loop_schedules.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/task_loop.h"

namespace anydim::codegen_cpu {

namespace {

class StageEmitter {
 public:
  StageEmitter(KernelBuilder& kernel, const ir::OrderedStage& stage)
      : kernel_(kernel), stage_(stage) {}

  // The rows of a turn's lanes, point after point.
  void emit(Scope& rows, const VectorTurn& turn) {
    if (stage_.conditions.empty()) return pass(rows, turn);
    Scope conditions(rows);
    turn.enter(conditions, 0);
    llvm::Value* all = emit_all_of(kernel_, conditions, stage_.conditions);
    kernel_.guarded(rows, all, [&](Scope& inside) { pass(inside, turn); });
  }

 private:
  using Carried = std::vector<llvm::AllocaInst*>;

  void pass(Scope& scope, const VectorTurn& turn) {
    std::vector<Carried> carried(turn.vectors.size());
    for (std::size_t i = 0; i < carried.size(); ++i) {
      for (const ir::OrderedStage::Carry& carry : stage_.carries) {
        auto* type =
            kernel_.vector_of(kernel_.value_type(carry.dtype), turn.vectors[i].lanes.width);
        carried[i].push_back(kernel_.variable(type, "carried"));
        kernel_.at(scope).CreateStore(llvm::Constant::getNullValue(type), carried[i].back());
      }
    }
    // Everything of a point stays in it: what it reads may differ from what the point before it
    // read.
    emit_points(kernel_, scope, stage_.inner, [&](Scope& point) {
      ProgramEmitter program(kernel_, stage_.program, point, ir::roots_of(stage_));
      for (std::size_t i = 0; i < carried.size(); ++i) {
        Scope one(point);
        turn.enter(one, i);
        write(program, one, carried[i]);
      }
    });
  }

  void write(ProgramEmitter& program, Scope& scope, const Carried& carried) {
    for (std::size_t i = 0; i < carried.size(); ++i) {
      auto& at = kernel_.at(scope);
      program.set_accumulated(stage_.carries[i].slot,
                              at.CreateLoad(carried[i]->getAllocatedType(), carried[i]), scope);
    }
    for (const auto& update : stage_.updates) program.store(scope, update.store, update.combine);
    for (std::size_t i = 0; i < carried.size(); ++i) {
      llvm::Value* next = program.value(scope, stage_.carries[i].next);
      auto& at = kernel_.at(scope);
      at.CreateStore(kernel_.splat(next, scope.lanes().width), carried[i]);
    }
  }

  KernelBuilder& kernel_;
  const ir::OrderedStage& stage_;
};

}  // namespace

EmittedKernel emit_form(KernelBuilder& kernel, const ir::OrderedForm& form,
                        const ir::Schedule& chosen) {
  const OrderedSchedule schedule = OrderedSchedule::from(chosen);
  const auto width = static_cast<unsigned>(schedule.vector);
  const auto unroll = static_cast<unsigned>(schedule.unroll);
  Dim points;
  for (const ir::OrderedStage& stage : form.stages) points = points + ir::points_of(stage.inner);
  std::vector<StageEmitter> stages;
  for (const ir::OrderedStage& stage : form.stages) stages.emplace_back(kernel, stage);
  std::span<const ir::Iteration> outer(form.outer);
  const ir::Iteration none{ir::loop_leaf(ir::LoopRole::Made), Dim(1)};
  const ir::Iteration& run = outer.empty() ? none : outer.back();
  if (!outer.empty()) outer = outer.first(outer.size() - 1);
  const std::int64_t turn = std::int64_t{width} * unroll;
  const Dim rows = ir::max(ir::floor_div(schedule.grain, ir::max(points, 1)), 1);
  const TaskPlan plan = plan_tasks(outer, run.extent, rows, turn, false);
  const bool whole = ir::divisor(run.extent, kernel.symbols()) % turn == 0;
  emit_tasks(kernel, kernel.root(), outer, plan, kernel.begin(), kernel.end(),
             [&](Scope& row, llvm::Value* first, llvm::Value* last) {
               const VectorRange range{.variable = run.variable,
                                       .first = first,
                                       .last = last,
                                       .width = width,
                                       .unroll = unroll,
                                       .whole = whole};
               emit_vector_turns(kernel, row, range, [&](Scope& rows, const VectorTurn& vectors) {
                 for (StageEmitter& stage : stages) stage.emit(rows, vectors);
               });
             });
  return {plan.tasks, Dim()};
}

}  // namespace anydim::codegen_cpu
