// What scratch memory holds of an operand: consecutive tasks of one call often share it.
#pragma once

#include "codegen_cpu/kernel_builder.h"

namespace anydim::codegen_cpu {

class PackedOnce {
 public:
  // At the kernel's entry; keeps `kernel` by reference.
  PackedOnce(KernelBuilder& kernel, const char* name);
  // Runs `pack` unless what it packs is there already: what `key`, a number from 0 on, stands for.
  void unless_packed(Scope& task, llvm::Value* key, const KernelBuilder::Body& pack) const;

 private:
  KernelBuilder& kernel_;
  llvm::AllocaInst* key_;  // of what is there; -1: nothing is
};

}  // namespace anydim::codegen_cpu
