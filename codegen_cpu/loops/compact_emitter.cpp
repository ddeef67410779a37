// Compactions, on one worker: every point writes its number where the next selected one belongs,
// and only a selected one moves that place on, so that nothing branches.
#include "codegen_cpu/emitters.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/work_estimate.h"
#include "ir/region.h"

namespace anydim::codegen_cpu {

namespace {

class CompactEmitter {
 public:
  CompactEmitter(KernelBuilder& kernel, const ir::CompactForm& form)
      : kernel_(kernel), form_(form),
        found_(kernel.variable(kernel.value_type(ir::DType::I64), "found")),
        number_(kernel.variable(kernel.value_type(ir::DType::I64), "number")) {}

  void emit(Scope& task) {
    auto& at = kernel_.at(task);
    at.CreateStore(kernel_.constant(0), found_);
    at.CreateStore(kernel_.constant(0), number_);
    emit_points(kernel_, task, form_.space, [&](Scope& one) { point(one); });
    llvm::Value* found = load(task, found_);
    if (form_.count >= 0)
      kernel_.at(task).CreateStore(found, kernel_.output(static_cast<std::size_t>(form_.count)));
    if (form_.positions < 0) return;
    kernel_.for_range(task, found, load(task, number_), 1, [&](Scope& rest, llvm::Value* position) {
      put(rest, position, kernel_.constant(0));
    });
  }

 private:
  llvm::Value* load(Scope& scope, llvm::AllocaInst* variable) {
    return kernel_.at(scope).CreateLoad(variable->getAllocatedType(), variable);
  }

  void put(Scope& scope, llvm::Value* position, llvm::Value* value) {
    auto& at = kernel_.at(scope);
    at.CreateStore(
        value, kernel_.element_pointer(kernel_.output(static_cast<std::size_t>(form_.positions)),
                                       ir::DType::I64, position));
  }

  void point(Scope& scope) {
    ProgramEmitter program(kernel_, form_.program, scope, {form_.selected});
    llvm::Value* selected = program.value(scope, form_.selected);
    llvm::Value *found = load(scope, found_), *number = load(scope, number_);
    if (form_.positions >= 0) put(scope, found, number);
    auto& at = kernel_.at(scope);
    at.CreateStore(at.CreateAdd(found, at.CreateZExt(selected, found->getType())), found_);
    at.CreateStore(at.CreateAdd(number, kernel_.constant(1)), number_);
  }

  KernelBuilder& kernel_;
  const ir::CompactForm& form_;
  llvm::AllocaInst *found_, *number_;
};

class CompactKind final : public KindOf<ir::CompactForm> {
 public:
  std::vector<ir::Schedule> candidates(const PlanInputs&, const ir::Bucket&) const override {
    return {{.name = "compact", .fields = {}}};
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule&,
                  std::span<const std::int64_t> keys) const override {
    const auto& form = form_of(inputs.form);
    const double points = points_at(inputs, form.space, keys);
    const ir::DimLeaf run = form.space.empty() ? ir::DimLeaf() : form.space.back().variable;
    const double cycles = points * (3 + point_cycles(inputs, form.program, {}, run, 1));
    return launch_seconds(inputs, cycles, ir::traffic_bytes(inputs.region, points, keys), 1);
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_compact_kind() { return std::make_unique<CompactKind>(); }

EmittedKernel emit_form(KernelBuilder& kernel, const ir::CompactForm& form, const ir::Schedule&) {
  CompactEmitter emitter(kernel, form);
  kernel.for_range(kernel.root(), kernel.begin(), kernel.end(), 1,
                   [&](Scope& task, llvm::Value*) { emitter.emit(task); });
  return {ir::Dim(1), ir::Dim()};
}

}  // namespace anydim::codegen_cpu
