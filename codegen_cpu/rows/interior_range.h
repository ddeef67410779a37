// The part of a row's iteration that asks nothing (ir/loops/row_interior.h), at run time.
#pragma once

#include "codegen_cpu/kernel_builder.h"
#include "ir/loops/row_interior.h"

namespace anydim::codegen_cpu {

// [first, last), which may reach beyond the iteration and is empty where `last` is not larger.
struct InteriorRange {
  llvm::Value *first, *last;
};
InteriorRange interior_range(KernelBuilder& kernel, Scope& scope, const ir::RowInterior& interior);

}  // namespace anydim::codegen_cpu
