// From a task's number to its part of the work.
#pragma once

#include <functional>
#include <vector>

#include "codegen_cpu/kernel_builder.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

// Defines the batch iterations' symbols in `task` for row-major position `point` of the batch.
void define_batch(KernelBuilder& kernel, Scope& task, const std::vector<ir::Iteration>& batch,
                  llvm::Value* point);

// [first, first + count), the `number`th of its kind.
struct Share {
  llvm::Value* first = nullptr;
  llvm::Value* count = nullptr;
  llvm::Value* number = nullptr;
  llvm::Value* done = nullptr;  // of blocks that overlap: so many of its first are the last of the
                                // one before; null: none
};
// Share `number` of `total` split evenly into `shares`: counts differ by one at most, none is empty
// while shares <= total.
Share even_share(KernelBuilder& kernel, Scope& scope, llvm::Value* total, llvm::Value* shares,
                 llvm::Value* number);

// Runs body over [0, total) in as few blocks of at most `most` as it takes, split evenly. total is
// at least 1.
using BlockBody = std::function<void(Scope&, const Share&)>;
void for_even_blocks(KernelBuilder& kernel, Scope& scope, llvm::Value* total, std::int64_t most,
                     const BlockBody& body);

// Runs body over the parts of `share` that multiples of `length` (at least 1) cut it into: first
// and count as the share counts them, the number that of the multiple. The share has at least one.
void for_parts(KernelBuilder& kernel, Scope& scope, const Share& share, llvm::Value* length,
               const BlockBody& body);

}  // namespace anydim::codegen_cpu
