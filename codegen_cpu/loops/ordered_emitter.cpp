// Rows whose points depend on those before them: running sums and scatters.
#include "codegen_cpu/emitters.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/task_loop.h"

namespace anydim::codegen_cpu {

namespace {

using ir::Dim;

class StageEmitter {
 public:
  StageEmitter(KernelBuilder& kernel, const ir::OrderedStage& stage)
      : kernel_(kernel), stage_(stage) {
    for (const ir::OrderedStage::Carry& carry : stage.carries) {
      carried_.push_back(kernel.variable(kernel.value_type(carry.dtype), "carried"));
    }
    for (const auto& update : stage.updates) roots_.push_back(update.store.step);
    for (const auto& carry : stage.carries) roots_.push_back(carry.next);
  }

  void emit(Scope& row) {
    llvm::Value* all = nullptr;
    for (const ir::ScalarStep::Condition& condition : stage_.conditions) {
      llvm::Value* holds = emit_condition(kernel_, row, condition);
      all = all ? kernel_.at(row).CreateAnd(all, holds) : holds;
    }
    if (all == nullptr) return pass(row);
    kernel_.guarded(row, all, [&](Scope& inside) { pass(inside); });
  }

 private:
  void pass(Scope& scope) {
    auto& at = kernel_.at(scope);
    for (llvm::AllocaInst* variable : carried_)
      at.CreateStore(llvm::Constant::getNullValue(variable->getAllocatedType()), variable);
    emit_points(kernel_, scope, stage_.inner, [&](Scope& one) { point(one); });
  }

  // Everything of a point stays in it: what it reads may differ from what the point before it read.
  void point(Scope& scope) {
    ProgramEmitter program(kernel_, stage_.program, scope, roots_);
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      auto& at = kernel_.at(scope);
      program.set_accumulated(stage_.carries[i].slot,
                              at.CreateLoad(carried_[i]->getAllocatedType(), carried_[i]), scope);
    }
    for (const auto& update : stage_.updates) program.store(scope, update.store, update.combine);
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      llvm::Value* next = program.value(scope, stage_.carries[i].next);
      kernel_.at(scope).CreateStore(next, carried_[i]);
    }
  }

  KernelBuilder& kernel_;
  const ir::OrderedStage& stage_;
  std::vector<llvm::AllocaInst*> carried_;
  std::vector<std::int32_t> roots_;
};

}  // namespace

EmittedKernel emit_ordered(KernelBuilder& kernel, const ir::OrderedForm& form,
                           const ir::Schedule& schedule) {
  Dim points;
  for (const ir::OrderedStage& stage : form.stages) {
    Dim inner = 1;
    for (const ir::Iteration& iteration : stage.inner) inner = inner * iteration.extent;
    points = points + inner;
  }
  std::vector<StageEmitter> stages;
  for (const ir::OrderedStage& stage : form.stages) stages.emplace_back(kernel, stage);
  const TaskPlan plan = plan_tasks(form.outer, points, schedule.field("grain"), 1, true);
  emit_tasks(kernel, kernel.root(), form.outer, plan, kernel.begin(), kernel.end(),
             [&](Scope& row, llvm::Value*, llvm::Value*) {
               for (StageEmitter& stage : stages) stage.emit(row);
             });
  return {plan.tasks, Dim()};
}

}  // namespace anydim::codegen_cpu
