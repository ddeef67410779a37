// Loops over vectors of one iteration.
#pragma once

#include <cstdint>

#include "codegen_cpu/kernel_builder.h"

namespace anydim::codegen_cpu {

struct VectorLoop {
  ir::DimLeaf variable;          // spread over the lanes
  llvm::Value* first = nullptr;  // its value at position 0
  llvm::Value* count = nullptr;  // positions
  std::int64_t width = 1;        // lanes
  bool may_end_early = true;     // count may not be a multiple of width
  bool aligned = false;          // `first` is a multiple of width
};

// Runs body at positions 0, width, ...; the last time under a mask where the count ends within a
// vector.
void for_vectors(KernelBuilder& kernel, Scope& scope, const VectorLoop& loop,
                 const KernelBuilder::LoopBody& body);

// <width x i1>: lanes below `count` (i64).
llvm::Value* lanes_below(KernelBuilder& kernel, Scope& scope, std::int64_t width,
                         llvm::Value* count);

}  // namespace anydim::codegen_cpu
