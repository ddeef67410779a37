#include "codegen_cpu/matmul/multiply_variants.h"

#include <vector>

#include "codegen_cpu/kernel_builder.h"

namespace anydim::codegen_cpu {

MultiplyVariants::MultiplyVariants(llvm::Module& module, const Target& target,
                                   const std::string& name, std::span<llvm::Type* const> more)
    : builder_(module.getContext()) {
  auto* pointer = builder_.getPtrTy();
  auto* i64 = builder_.getInt64Ty();
  std::vector<llvm::Type*> arguments{i64, i64, pointer, i64,     pointer, i64,
                                     i64, i64, pointer, pointer, i64};
  arguments.insert(arguments.end(), more.begin(), more.end());
  auto* type = llvm::FunctionType::get(builder_.getVoidTy(), arguments, false);
  function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
  set_function_attributes(*function_, target);
  function_->addFnAttr(llvm::Attribute::NoInline);
  function_->addFnAttr("no-jump-tables", "true");
  builder_.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function_));
}

void MultiplyVariants::choose(llvm::Value* choice, std::size_t variants) {
  auto* other = llvm::BasicBlock::Create(builder_.getContext(), "other", function_);
  chosen_ = builder_.CreateSwitch(choice, other, static_cast<unsigned>(variants));
  builder_.SetInsertPoint(other);
  builder_.CreateIntrinsic(llvm::Intrinsic::trap, {}, {});
  builder_.CreateUnreachable();
}

void MultiplyVariants::add(std::uint64_t choice, llvm::Function* kernel,
                           std::span<llvm::Value* const> arguments) {
  auto* block = llvm::BasicBlock::Create(builder_.getContext(), "variant", function_);
  chosen_->addCase(builder_.getInt64(choice), block);
  builder_.SetInsertPoint(block);
  builder_.CreateCall(kernel, llvm::ArrayRef(arguments.data(), arguments.size()))
      ->setTailCallKind(llvm::CallInst::TCK_Tail);
  builder_.CreateRetVoid();
}

}  // namespace anydim::codegen_cpu
