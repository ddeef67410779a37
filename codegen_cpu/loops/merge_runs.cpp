#include "codegen_cpu/loops/merge_runs.h"

#include <utility>

namespace anydim::codegen_cpu {

RunMerger::RunMerger(KernelBuilder& kernel, const SortEntries& entries, const SortArray& array,
                     const SortArray& other, Before before)
    : kernel_(kernel), entries_(entries), first_(array), second_(other),
      before_(std::move(before)) {
  for (Cursor* cursor : {&front_, &back_}) {
    cursor->left = kernel.variable(kernel.value_type(DType::I64), "left");
    cursor->right = kernel.variable(kernel.value_type(DType::I64), "right");
  }
}

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
                      .begin = begin,
                      .middle = within(in.CreateAdd(begin, run)),
                      .end = within(in.CreateAdd(begin, pair)),
                      .count = count};
    in.CreateStore(begin, front_.left);
    in.CreateStore(merge.middle, front_.right);
    in.CreateStore(in.CreateSub(merge.middle, kernel_.constant(1)), back_.left);
    llvm::Value* last = in.CreateSub(merge.end, kernel_.constant(1));
    in.CreateStore(last, back_.right);
    // Two merges that meet, neither of which waits for the other; in the middle both may put the
    // same entry.
    llvm::Value* half = in.CreateLShr(
        in.CreateAdd(in.CreateSub(merge.end, begin), kernel_.constant(1)), kernel_.constant(1));
    kernel_.for_range(body, kernel_.constant(0), half, 1, [&](Scope& point, llvm::Value* done) {
      merge_front(point, merge, kernel_.at(point).CreateAdd(begin, done));
      merge_back(point, merge, kernel_.at(point).CreateSub(last, done));
    });
  });
}

void RunMerger::merge_front(Scope& scope, const Merge& merge, llvm::Value* place) {
  const Heads heads = load_heads(scope, merge, front_);
  auto& at = kernel_.at(scope);
  llvm::Value* take_right =
      at.CreateAnd(at.CreateICmpSLT(heads.right, merge.end),
                   at.CreateOr(at.CreateICmpSGE(heads.left, merge.middle), heads.right_is_before));
  entries_.store(scope, merge.to, place,
                 entries_.select(scope, take_right, heads.right_entry, heads.left_entry));
  move(scope, front_, heads, take_right, 1);
}

void RunMerger::merge_back(Scope& scope, const Merge& merge, llvm::Value* place) {
  const Heads heads = load_heads(scope, merge, back_);
  auto& at = kernel_.at(scope);
  llvm::Value* take_right = at.CreateAnd(
      at.CreateICmpSGE(heads.right, merge.middle),
      at.CreateOr(at.CreateICmpSLT(heads.left, merge.begin), at.CreateNot(heads.right_is_before)));
  entries_.store(scope, merge.to, place,
                 entries_.select(scope, take_right, heads.right_entry, heads.left_entry));
  move(scope, back_, heads, take_right, -1);
}

// Where a run is used up its head is some other entry of the array.
RunMerger::Heads RunMerger::load_heads(Scope& scope, const Merge& merge, const Cursor& cursor) {
  const auto next = [&](llvm::AllocaInst* variable) {
    return kernel_.at(scope).CreateLoad(variable->getAllocatedType(), variable);
  };
  Heads heads{.left = next(cursor.left), .right = next(cursor.right)};
  const auto entry = [&](llvm::Value* position) {
    auto& at = kernel_.at(scope);
    llvm::Value* last = at.CreateSub(merge.count, kernel_.constant(1));
    llvm::Value* inside = at.CreateBinaryIntrinsic(
        llvm::Intrinsic::smax, at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, position, last),
        kernel_.constant(0));
    return entries_.load(scope, merge.from, inside, 1);
  };
  heads.left_entry = entry(heads.left);
  heads.right_entry = entry(heads.right);
  heads.right_is_before = before_(scope, heads.right_entry, heads.left_entry);
  return heads;
}

void RunMerger::move(Scope& scope, const Cursor& cursor, const Heads& heads,
                     llvm::Value* take_right, std::int64_t step) {
  auto& at = kernel_.at(scope);
  const auto moved = [&](llvm::Value* from, llvm::Value* taken) {
    llvm::Value* steps = at.CreateZExt(taken, from->getType());
    return step > 0 ? at.CreateAdd(from, steps) : at.CreateSub(from, steps);
  };
  at.CreateStore(moved(heads.right, take_right), cursor.right);
  at.CreateStore(moved(heads.left, at.CreateNot(take_right)), cursor.left);
}

}  // namespace anydim::codegen_cpu
