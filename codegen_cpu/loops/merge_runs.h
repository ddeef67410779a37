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
    llvm::Value *begin, *middle, *end;  // of both runs
    llvm::Value* count;                 // of the array
  };
  // What comes next of either run, from one end.
  struct Cursor {
    llvm::AllocaInst *left = nullptr, *right = nullptr;
  };
  struct Heads {
    llvm::Value *left = nullptr, *right = nullptr;  // positions
    SortEntry left_entry{}, right_entry{};
    llvm::Value* right_is_before = nullptr;
  };

  SortArray array(Scope& scope, llvm::Value* pass, bool written);
  void merge_pass(Scope& scope, llvm::Value* number, llvm::Value* count, std::int64_t first_run);
  void merge_front(Scope& scope, const Merge& merge, llvm::Value* place);
  void merge_back(Scope& scope, const Merge& merge, llvm::Value* place);
  Heads load_heads(Scope& scope, const Merge& merge, const Cursor& cursor);
  void move(Scope& scope, const Cursor& cursor, const Heads& heads, llvm::Value* take_right,
            std::int64_t step);

  KernelBuilder& kernel_;
  const SortEntries& entries_;
  const SortArray first_, second_;
  const Before before_;
  Cursor front_, back_;
};

}  // namespace anydim::codegen_cpu
