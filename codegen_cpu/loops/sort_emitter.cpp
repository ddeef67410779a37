// Sorts: every row by merging runs of 1, 2, 4, ... numbers between two arrays in the worker's
// scratch memory. Merging keeps equal keys in order.
#include <algorithm>
#include <cmath>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/scratch_layout.h"
#include "codegen_cpu/task_loop.h"
#include "codegen_cpu/work_estimate.h"

namespace anydim::codegen_cpu {

namespace {

using ir::DType;

class SortEmitter {
 public:
  SortEmitter(KernelBuilder& kernel, const ir::SortForm& form, llvm::Value* first,
              llvm::Value* second)
      : kernel_(kernel), form_(form), first_(first), second_(second), left_(integer("left")),
        right_(integer("right")), order_(integer("order")) {}

  void emit(Scope& row) {
    items_ = emit_index(kernel_, row, form_.item.extent);
    kernel_.for_range(row, kernel_.constant(0), items_, 1, [&](Scope& body, llvm::Value* i) {
      kernel_.at(body).CreateStore(i, kernel_.element_pointer(first_, DType::I64, i));
    });
    // As many passes as items - 1 has bits.
    auto& at = kernel_.at(row);
    llvm::Value* last = at.CreateBinaryIntrinsic(
        llvm::Intrinsic::smax, at.CreateSub(items_, kernel_.constant(1)), kernel_.constant(0));
    llvm::Value* passes = at.CreateSub(
        kernel_.constant(64), at.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, last, at.getFalse()));
    kernel_.for_range(row, kernel_.constant(0), passes, 1,
                      [&](Scope& pass, llvm::Value* number) { merge_runs(pass, number); });
    llvm::Value* sorted = array(row, passes, false);
    kernel_.for_range(row, kernel_.constant(0), items_, 1, [&](Scope& body, llvm::Value* rank) {
      body.define(form_.rank, rank);
      llvm::Value* item = element(body, sorted, rank);
      const auto output = static_cast<std::size_t>(form_.output);
      const ir::Dim offset =
          ir::linear_offset(form_.index, kernel_.output_type(output).dims, kernel_.symbols());
      store_elements(kernel_, body, kernel_.output(output), DType::I64, offset, item);
    });
  }

 private:
  llvm::AllocaInst* integer(const char* name) {
    return kernel_.variable(kernel_.value_type(DType::I64), name);
  }
  llvm::Value* load(Scope& scope, llvm::AllocaInst* variable) {
    return kernel_.at(scope).CreateLoad(variable->getAllocatedType(), variable);
  }
  llvm::Value* element(Scope& scope, llvm::Value* base, llvm::Value* position) {
    auto& at = kernel_.at(scope);
    return at.CreateLoad(kernel_.value_type(DType::I64),
                         kernel_.element_pointer(base, DType::I64, position));
  }

  // What pass `number` reads, or writes.
  llvm::Value* array(Scope& scope, llvm::Value* number, bool written) {
    auto& at = kernel_.at(scope);
    llvm::Value* odd = at.CreateTrunc(number, at.getInt1Ty());
    return written ? at.CreateSelect(odd, first_, second_) : at.CreateSelect(odd, second_, first_);
  }

  void merge_runs(Scope& pass, llvm::Value* number) {
    llvm::Value *from = array(pass, number, false), *to = array(pass, number, true);
    auto& at = kernel_.at(pass);
    llvm::Value* run = at.CreateShl(kernel_.constant(1), number);
    llvm::Value* pair = at.CreateShl(run, kernel_.constant(1));
    llvm::Value* pairs =
        at.CreateUDiv(at.CreateAdd(items_, at.CreateSub(pair, kernel_.constant(1))), pair);
    kernel_.for_range(pass, kernel_.constant(0), pairs, 1, [&](Scope& body, llvm::Value* which) {
      auto& in = kernel_.at(body);
      const auto within = [&](llvm::Value* end) {
        return in.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, items_);
      };
      llvm::Value* begin = in.CreateMul(which, pair);
      llvm::Value *middle = within(in.CreateAdd(begin, run)),
                  *end = within(in.CreateAdd(begin, pair));
      in.CreateStore(begin, left_);
      in.CreateStore(middle, right_);
      kernel_.for_range(body, begin, end, 1, [&](Scope& point, llvm::Value* place) {
        merge_one(point, from, to, place, middle, end);
      });
    });
  }

  void merge_one(Scope& scope, llvm::Value* from, llvm::Value* to, llvm::Value* place,
                 llvm::Value* middle, llvm::Value* end) {
    llvm::Value *left = load(scope, left_), *right = load(scope, right_);
    const auto item = [&](llvm::Value* position) {
      auto& at = kernel_.at(scope);
      llvm::Value* last = at.CreateSub(items_, kernel_.constant(1));
      return element(scope, from, at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, position, last));
    };
    llvm::Value *left_item = item(left), *right_item = item(right);
    llvm::Value* earlier = comes_before(scope, right_item, left_item);
    auto& at = kernel_.at(scope);
    llvm::Value* take = at.CreateAnd(at.CreateICmpSLT(right, end),
                                     at.CreateOr(at.CreateICmpSGE(left, middle), earlier));
    at.CreateStore(at.CreateSelect(take, right_item, left_item),
                   kernel_.element_pointer(to, DType::I64, place));
    llvm::Value* taken = at.CreateZExt(take, left->getType());
    at.CreateStore(at.CreateAdd(right, taken), right_);
    at.CreateStore(at.CreateAdd(left, at.CreateSub(kernel_.constant(1), taken)), left_);
  }

  // i1: item `a` is strictly in front of item `b`.
  llvm::Value* comes_before(Scope& scope, llvm::Value* a, llvm::Value* b) {
    if (form_.depth.empty()) {
      llvm::Value *first = key(scope, a), *second = key(scope, b);
      return form_.descending ? less(scope, second, first) : less(scope, first, second);
    }
    // -1, 0 or 1 as far as it is known.
    kernel_.at(scope).CreateStore(kernel_.constant(0), order_);
    emit_points(kernel_, scope, form_.depth, [&](Scope& point) { compare_keys(point, a, b); });
    llvm::Value* order = load(scope, order_);
    return kernel_.at(scope).CreateICmpEQ(order, kernel_.constant(form_.descending ? 1 : -1));
  }

  void compare_keys(Scope& scope, llvm::Value* a, llvm::Value* b) {
    llvm::Value* open = kernel_.at(scope).CreateICmpEQ(load(scope, order_), kernel_.constant(0));
    kernel_.guarded(scope, open, [&](Scope& inside) {
      llvm::Value *first = key(inside, a), *second = key(inside, b);
      llvm::Value *below = less(inside, first, second), *above = less(inside, second, first);
      auto& at = kernel_.at(inside);
      llvm::Value* order = at.CreateSelect(above, kernel_.constant(1), kernel_.constant(0));
      at.CreateStore(at.CreateSelect(below, kernel_.constant(-1), order), order_);
    });
  }

  llvm::Value* key(Scope& scope, llvm::Value* item) {
    Scope of_item(scope);
    of_item.define(form_.item.variable, item);
    ProgramEmitter program(kernel_, form_.program, of_item, {form_.key});
    dtype_ = program.dtype(form_.key);
    return program.value(of_item, form_.key);
  }

  llvm::Value* less(Scope& scope, llvm::Value* a, llvm::Value* b) {
    auto& at = kernel_.at(scope);
    if (!ir::is_float(dtype_))
      return ir::is_signed(dtype_) ? at.CreateICmpSLT(a, b) : at.CreateICmpULT(a, b);
    return at.CreateOr(at.CreateFCmpOLT(a, b),
                       at.CreateAnd(at.CreateFCmpORD(a, a), at.CreateFCmpUNO(b, b)));
  }

  KernelBuilder& kernel_;
  const ir::SortForm& form_;
  llvm::Value *first_, *second_;
  llvm::AllocaInst *left_, *right_, *order_;
  llvm::Value* items_ = nullptr;
  DType dtype_{};
};

class SortKind final : public KindOf<ir::SortForm> {
 public:
  std::string_view name() const override { return "sort"; }

  std::vector<ir::Schedule> candidates(const PlanInputs&, const ir::Bucket&) const override {
    return {{.name = "sort", .fields = {{"grain", 256}}}};
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    const auto& form = form_of(inputs.form);
    const double rows = points_at(inputs, form.outer, keys);
    const double items = points_at(inputs, std::span(&form.item, 1), keys);
    const double points = rows * items;
    const double comparisons = points * std::ceil(std::log2(std::max(items, 2.0)));
    const double cycles = points * 4 + comparisons * (8 + 2 * point_cycles(inputs, form.program, {},
                                                                           form.item.variable, 1));
    const double tasks =
        std::clamp(points / static_cast<double>(schedule.field("grain")), 1.0, std::max(rows, 1.0));
    return launch_seconds(cycles, traffic_bytes(inputs, points, keys), tasks, inputs.threads);
  }

 protected:
  EmittedKernel emit_form(KernelBuilder& kernel, const ir::SortForm& form,
                          const ir::Schedule& schedule) const override {
    ScratchLayout scratch;
    const ir::Dim bytes = form.item.extent * static_cast<std::int64_t>(ir::size_of(DType::I64));
    llvm::Value* first = scratch.reserve(kernel, bytes);
    llvm::Value* second = scratch.reserve(kernel, bytes);
    SortEmitter emitter(kernel, form, first, second);
    const TaskPlan plan =
        plan_tasks(form.outer, form.item.extent, schedule.field("grain"), 1, true);
    emit_tasks(kernel, kernel.root(), form.outer, plan, kernel.begin(), kernel.end(),
               [&](Scope& row, llvm::Value*, llvm::Value*) { emitter.emit(row); });
    return {plan.tasks, scratch.bytes()};
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_sort_kind() { return std::make_unique<SortKind>(); }

}  // namespace anydim::codegen_cpu
