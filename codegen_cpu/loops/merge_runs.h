// Sorted runs of entries become one.
#pragma once

#include <functional>

#include "codegen_cpu/loops/sort_entries.h"

namespace anydim::codegen_cpu {

class RunMerger {
 public:
  // i1: whether one entry is strictly in front of another.
  using Before = std::function<llvm::Value*(Scope&, const SortEntry& a, const SortEntry& b)>;

  // Entries lie in `array`; `other` is as large.
  RunMerger(KernelBuilder& kernel, const SortEntries& entries, const SortArray& array,
            const SortArray& other, Before before);

  // Merges `count` entries in sorted runs of `run` until one is left; of it the first `wanted` lie
  // in the array afterwards. Entries none of which is in front of the other keep their order.
  void emit(Scope& scope, llvm::Value* count, std::int64_t run, llvm::Value* wanted);

 private:
  struct Merge {
    SortArray from, to;
    llvm::Value *middle, *end;
  };

  SortArray array(Scope& scope, llvm::Value* pass, bool written);
  void merge_pass(Scope& scope, llvm::Value* number, llvm::Value* count, std::int64_t first_run);
  void merge_one(Scope& scope, const Merge& merge, llvm::Value* place, llvm::Value* count);

  KernelBuilder& kernel_;
  const SortEntries& entries_;
  const SortArray first_, second_;
  const Before before_;
  llvm::AllocaInst *left_, *right_;  // what comes next of either run
};

}  // namespace anydim::codegen_cpu
