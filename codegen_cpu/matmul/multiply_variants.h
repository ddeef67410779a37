// The one function in front of all micro-kernels of a kernel.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "codegen_cpu/target.h"

namespace anydim::codegen_cpu {

// void(variant, rows, left, left_stride, right, panel_stride, right_stride, depth, tile, ahead,
// ahead_step, and arguments of the types `more`): computes a choice from its arguments at
// builder(), then calls the micro-kernel added for it. A choice that none was added for traps.
class MultiplyVariants {
 public:
  MultiplyVariants(llvm::Module& module, const Target& target, const std::string& name,
                   std::span<llvm::Type* const> more = {});

  llvm::Function* function() const { return function_; }
  llvm::IRBuilder<>& builder() { return builder_; }
  // After the code that computes it; once, before add().
  void choose(llvm::Value* choice, std::size_t variants);
  void add(std::uint64_t choice, llvm::Function* kernel, std::span<llvm::Value* const> arguments);

 private:
  llvm::IRBuilder<> builder_;
  llvm::Function* function_;
  llvm::SwitchInst* chosen_ = nullptr;
};

}  // namespace anydim::codegen_cpu
