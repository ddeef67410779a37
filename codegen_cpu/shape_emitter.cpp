#include "codegen_cpu/shape_emitter.h"

#include <array>
#include <map>

#include "codegen_cpu/compile.h"
#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

class ShapeEmitter {
 public:
  ShapeEmitter(llvm::Module& module, const Target& target, const ir::ShapeProgram& program,
               const std::string& name)
      : program_(program), context_(module.getContext()), at_(context_) {
    auto* pointer = at_.getPtrTy();
    auto* type = llvm::FunctionType::get(at_.getVoidTy(), {pointer, pointer, pointer}, false);
    function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, module);
    function_->setDSOLocal(true);
    function_->setVisibility(llvm::GlobalValue::HiddenVisibility);
    set_function_attributes(*function_, target);
    function_->getArg(1)->addAttr(llvm::Attribute::NoAlias);
    function_->getArg(2)->addAttr(llvm::Attribute::NoAlias);
  }

  void emit() {
    auto* entry = llvm::BasicBlock::Create(context_, "entry", function_);
    auto* done = llvm::BasicBlock::Create(context_, "done", function_);
    auto* i64 = at_.getInt64Ty();
    at_.SetInsertPoint(done);
    auto* outcome = at_.CreatePHI(at_.getInt32Ty(), 1);
    at_.CreateStore(outcome, function_->getArg(2));
    at_.CreateRetVoid();
    at_.SetInsertPoint(entry);
    for (std::size_t i = 0; i < program_.expressions.size(); ++i) {
      const Checked result = value(program_.expressions[i]);
      if (result.failed) {
        auto* next = llvm::BasicBlock::Create(context_, "next", function_, done);
        outcome->addIncoming(at_.getInt32(static_cast<std::uint32_t>(i)), at_.GetInsertBlock());
        at_.CreateCondBr(result.failed, done, next);
        at_.SetInsertPoint(next);
      }
      at_.CreateStore(result.value, at_.CreateConstInBoundsGEP1_64(i64, function_->getArg(1), i));
    }
    outcome->addIncoming(at_.getInt32(static_cast<std::uint32_t>(-1)), at_.GetInsertBlock());
    at_.CreateBr(done);
  }

 private:
  struct Checked {
    llvm::Value* value = nullptr;
    llvm::Value* failed = nullptr;  // i1; null: cannot fail
  };

  Checked value(const Dim& dim) {
    if (const auto found = known_.find(dim); found != known_.end()) return found->second;
    const Checked result = emit(dim);
    known_.emplace(dim, result);
    return result;
  }

  llvm::Value* either(llvm::Value* a, llvm::Value* b) {
    return a == nullptr ? b : b == nullptr ? a : at_.CreateOr(a, b);
  }
  llvm::Value* chosen_failure(llvm::Value* condition, llvm::Value* then, llvm::Value* otherwise) {
    if (then == nullptr && otherwise == nullptr) return nullptr;
    return at_.CreateSelect(condition, then ? then : at_.getFalse(),
                            otherwise ? otherwise : at_.getFalse());
  }

  Checked emit(const Dim& dim) {
    switch (dim.kind()) {
      case Dim::Kind::Constant: return {at_.getInt64(static_cast<std::uint64_t>(*dim.constant()))};
      case Dim::Kind::Symbol:
      case Dim::Kind::Value: {
        const auto leaf = std::find(program_.leaves.begin(), program_.leaves.end(), dim.leaf());
        internal_check(leaf != program_.leaves.end(),
                       "a shape program's expressions mention only its leaves: " + dim.to_string());
        auto* address = at_.CreateConstInBoundsGEP1_64(
            at_.getInt64Ty(), function_->getArg(0),
            static_cast<std::uint64_t>(leaf - program_.leaves.begin()));
        return {at_.CreateLoad(at_.getInt64Ty(), address)};
      }
      case Dim::Kind::Sum: return sum(dim);
      case Dim::Kind::FloorDiv:
      case Dim::Kind::Mod: return divide(dim);
      case Dim::Kind::Min:
      case Dim::Kind::Max: {
        Checked best = value(dim.operands().front());
        for (std::size_t i = 1; i < dim.operands().size(); ++i) {
          const Checked next = value(dim.operands()[i]);
          best.value = at_.CreateBinaryIntrinsic(
              dim.kind() == Dim::Kind::Min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax,
              best.value, next.value);
          best.failed = either(best.failed, next.failed);
        }
        return best;
      }
      case Dim::Kind::Select: {
        const Checked left = value(dim.operands()[0]), right = value(dim.operands()[1]);
        const Checked then = value(dim.operands()[2]), otherwise = value(dim.operands()[3]);
        llvm::Value* holds = emit_comparison(at_, dim.comparison(), left.value, right.value);
        llvm::Value* failed = either(either(left.failed, right.failed),
                                     chosen_failure(holds, then.failed, otherwise.failed));
        return {at_.CreateSelect(holds, then.value, otherwise.value), failed};
      }
      case Dim::Kind::Broadcast: {
        const Checked a = value(dim.operands()[0]), b = value(dim.operands()[1]);
        llvm::Value* is_one = at_.CreateICmpEQ(a.value, at_.getInt64(1));
        return {at_.CreateSelect(is_one, b.value, a.value),
                either(a.failed, chosen_failure(is_one, b.failed, nullptr))};
      }
    }
    internal_error("a dim is of one of the kinds");
  }

  Checked checked(llvm::Intrinsic::ID operation, Checked a, Checked b) {
    auto* both = at_.CreateBinaryIntrinsic(operation, a.value, b.value);
    return {at_.CreateExtractValue(both, 0),
            either(either(a.failed, b.failed), at_.CreateExtractValue(both, 1))};
  }

  // In 128 bits; a product of 64-bit numbers fits there.
  Checked sum(const Dim& dim) {
    auto* wide = at_.getInt128Ty();
    Checked total{
        llvm::ConstantInt::get(wide, static_cast<std::uint64_t>(dim.constant_part()), true)};
    for (const Dim::Term& term : dim.terms()) {
      Checked product{at_.getInt64(static_cast<std::uint64_t>(term.coefficient))};
      for (std::size_t i = 0; i + 1 < term.factors.size(); ++i) {
        const Checked factor = value(term.factors[i]);
        product = i == 0 && term.coefficient == 1
                      ? factor
                      : checked(llvm::Intrinsic::smul_with_overflow, product, factor);
      }
      const Checked last = value(term.factors.back());
      Checked whole{
          at_.CreateMul(at_.CreateSExt(product.value, wide), at_.CreateSExt(last.value, wide)),
          either(product.failed, last.failed)};
      total = checked(llvm::Intrinsic::sadd_with_overflow, total, whole);
    }
    auto* narrow = at_.CreateTrunc(total.value, at_.getInt64Ty());
    return {narrow,
            either(total.failed, at_.CreateICmpNE(at_.CreateSExt(narrow, wide), total.value))};
  }

  Checked divide(const Dim& dim) {
    const Checked a = value(dim.operands()[0]), b = value(dim.operands()[1]);
    auto* zero = at_.getInt64(0);
    auto* one = at_.getInt64(1);
    llvm::Value* by_zero = at_.CreateICmpEQ(b.value, zero);
    llvm::Value* by_minus_one =
        at_.CreateICmpEQ(b.value, at_.getInt64(static_cast<std::uint64_t>(-1)));
    // The processor traps on 0 and on the lowest number by -1.
    llvm::Value* divisor = at_.CreateSelect(at_.CreateOr(by_zero, by_minus_one), one, b.value);
    llvm::Value* failed = either(a.failed, b.failed);
    if (const auto constant = dim.operands()[1].constant(); !constant || *constant == 0)
      failed = either(failed, by_zero);
    auto* rest = at_.CreateSRem(a.value, divisor);
    auto* off = at_.CreateAnd(at_.CreateICmpNE(rest, zero),
                              at_.CreateICmpSLT(at_.CreateXor(rest, divisor), zero));
    if (dim.kind() == Dim::Kind::Mod)
      return {at_.CreateSelect(off, at_.CreateAdd(rest, divisor), rest), failed};
    auto* quotient =
        at_.CreateSub(at_.CreateSDiv(a.value, divisor), at_.CreateZExt(off, at_.getInt64Ty()));
    if (const auto constant = dim.operands()[1].constant(); !constant || *constant == -1) {
      auto* lowest = at_.getInt64(std::uint64_t{1} << 63);
      failed = either(failed, at_.CreateAnd(by_minus_one, at_.CreateICmpEQ(a.value, lowest)));
    }
    return {at_.CreateSelect(by_minus_one, at_.CreateNeg(a.value), quotient), failed};
  }

  const ir::ShapeProgram& program_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> at_;
  llvm::Function* function_ = nullptr;
  std::map<Dim, Checked> known_;
};

// LLVM's time grows faster than a block's length; longer programs stay interpreted, which takes
// microseconds.
constexpr unsigned most_instructions = 16384;

}  // namespace

void add_shape_function(llvm::Module& module, const Target& target, const ir::ShapeProgram& program,
                        const std::string& name) {
  ShapeEmitter(module, target, program, name).emit();
}

std::optional<ir::CompiledKernel> emit_shapes(const Target& target,
                                              const ir::ShapeProgram& program) {
  const std::array<std::string, 1> entries{"shapes"};
  const std::unique_ptr<llvm::TargetMachine> machine = make_machine(target);
  llvm::LLVMContext context;
  llvm::Module module("shapes", context);
  module.setTargetTriple(machine->getTargetTriple().str());
  module.setDataLayout(machine->createDataLayout());
  add_shape_function(module, target, program, entries[0]);
  if (module.getInstructionCount() > most_instructions) return std::nullopt;
  Blob blob = compile_module(module, *machine, entries);
  ir::CompiledKernel kernel;
  kernel.code = std::move(blob.bytes);
  kernel.device = ir::CpuEntries{.kernel = blob.entry_offsets[0]};
  kernel.resources.code_bytes = blob.code_bytes;
  return kernel;
}

}  // namespace anydim::codegen_cpu
