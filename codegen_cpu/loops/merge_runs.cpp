#include "codegen_cpu/loops/merge_runs.h"

#include <utility>

namespace anydim::codegen_cpu {

using ir::DType;

RunMerger::RunMerger(KernelBuilder& kernel, const SortEntries& entries, const SortArray& array,
                     const SortArray& other, Before before)
    : kernel_(kernel), entries_(entries), first_(array), second_(other), before_(std::move(before)),
      left_(kernel.variable(kernel.value_type(DType::I64), "left")),
      right_(kernel.variable(kernel.value_type(DType::I64), "right")) {}

void RunMerger::emit(Scope& scope, llvm::Value* count, std::int64_t run, llvm::Value* wanted) {
  // As many passes as (count - 1) / run has bits.
  auto& at = kernel_.at(scope);
  llvm::Value* last = at.CreateBinaryIntrinsic(
      llvm::Intrinsic::smax, at.CreateSub(count, kernel_.constant(1)), kernel_.constant(0));
  llvm::Value* passes = at.CreateSub(
      kernel_.constant(64),
      at.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, at.CreateUDiv(last, kernel_.constant(run)),
                               at.getFalse()));
  kernel_.for_range(scope, kernel_.constant(0), passes, 1, [&](Scope& pass, llvm::Value* number) {
    merge_pass(pass, number, count, run);
  });
  auto& after = kernel_.at(scope);
  llvm::Value* elsewhere = after.CreateTrunc(passes, after.getInt1Ty());
  kernel_.guarded(scope, elsewhere, [&](Scope& inside) {
    kernel_.for_range(inside, kernel_.constant(0), wanted, 1, [&](Scope& one, llvm::Value* place) {
      entries_.store(one, first_, place, entries_.load(one, second_, place, 1));
    });
  });
}

// What pass `number` reads, or writes.
SortArray RunMerger::array(Scope& scope, llvm::Value* pass, bool written) {
  auto& at = kernel_.at(scope);
  llvm::Value* odd = at.CreateTrunc(pass, at.getInt1Ty());
  return entries_.select(scope, odd, written ? first_ : second_, written ? second_ : first_);
}

void RunMerger::merge_pass(Scope& scope, llvm::Value* number, llvm::Value* count,
                           std::int64_t first_run) {
  const SortArray from = array(scope, number, false), to = array(scope, number, true);
  auto& at = kernel_.at(scope);
  llvm::Value* run = at.CreateShl(kernel_.constant(first_run), number);
  llvm::Value* pair = at.CreateShl(run, kernel_.constant(1));
  llvm::Value* pairs =
      at.CreateUDiv(at.CreateAdd(count, at.CreateSub(pair, kernel_.constant(1))), pair);
  kernel_.for_range(scope, kernel_.constant(0), pairs, 1, [&](Scope& body, llvm::Value* which) {
    auto& in = kernel_.at(body);
    const auto within = [&](llvm::Value* end) {
      return in.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, count);
    };
    llvm::Value* begin = in.CreateMul(which, pair);
    const Merge merge{.from = from,
                      .to = to,
                      .middle = within(in.CreateAdd(begin, run)),
                      .end = within(in.CreateAdd(begin, pair))};
    in.CreateStore(begin, left_);
    in.CreateStore(merge.middle, right_);
    kernel_.for_range(body, begin, merge.end, 1, [&](Scope& point, llvm::Value* place) {
      merge_one(point, merge, place, count);
    });
  });
}

void RunMerger::merge_one(Scope& scope, const Merge& merge, llvm::Value* place,
                          llvm::Value* count) {
  const auto next = [&](llvm::AllocaInst* variable) {
    return kernel_.at(scope).CreateLoad(variable->getAllocatedType(), variable);
  };
  llvm::Value *left = next(left_), *right = next(right_);
  const auto entry = [&](llvm::Value* position) {
    auto& at = kernel_.at(scope);
    llvm::Value* last = at.CreateSub(count, kernel_.constant(1));
    return entries_.load(scope, merge.from,
                         at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, position, last), 1);
  };
  const SortEntry left_entry = entry(left), right_entry = entry(right);
  llvm::Value* earlier = before_(scope, right_entry, left_entry);
  auto& at = kernel_.at(scope);
  llvm::Value* take = at.CreateAnd(at.CreateICmpSLT(right, merge.end),
                                   at.CreateOr(at.CreateICmpSGE(left, merge.middle), earlier));
  entries_.store(scope, merge.to, place, entries_.select(scope, take, right_entry, left_entry));
  auto& after = kernel_.at(scope);
  llvm::Value* taken = after.CreateZExt(take, left->getType());
  after.CreateStore(after.CreateAdd(right, taken), right_);
  after.CreateStore(after.CreateAdd(left, after.CreateSub(kernel_.constant(1), taken)), left_);
}

}  // namespace anydim::codegen_cpu
