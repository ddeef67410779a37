#include "codegen_cpu/kernel_builder.h"

#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <array>

#include "codegen_cpu/compile.h"
#include "codegen_cpu/shape_emitter.h"
#include "ir/error.h"
#include "ir/region.h"

namespace anydim::codegen_cpu {

namespace {

constexpr const char* entry_name = "kernel";

// Fields of ir::KernelCall, all pointers.
enum CallField : unsigned { BuffersField, ExtentsField, ErrorField, HostField };

}  // namespace

void set_function_attributes(llvm::Function& function, const Target& target) {
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.addFnAttr(llvm::Attribute::NoBuiltin);
  function.addFnAttr("no-builtins");
  function.addFnAttr("target-cpu", target.llvm_processor());
  if (!target.llvm_features().empty())
    function.addFnAttr("target-features", target.llvm_features());
  function.addFnAttr("prefer-vector-width", std::to_string(target.vector_bytes() * 8));
  function.addFnAttr("min-legal-vector-width", std::to_string(target.vector_bytes() * 8));
}

KernelBuilder::KernelBuilder(const Target& target, const ir::Region& region,
                             const ir::LoopForm& form, const ir::Bucket& bucket)
    : target_(target), region_(region), form_(form), bucket_(bucket), symbols_(form.symbols),
      context_(std::make_unique<llvm::LLVMContext>()), machine_(make_machine(target)),
      module_(std::make_unique<llvm::Module>("kernel", *context_)), builder_(*context_) {
  module_->setTargetTriple(machine_->getTargetTriple().str());
  module_->setDataLayout(machine_->createDataLayout());
  module_->setPICLevel(llvm::PICLevel::BigPIC);
  auto* pointer = llvm::PointerType::getUnqual(*context_);
  auto* i64 = builder_.getInt64Ty();
  auto* type = llvm::FunctionType::get(builder_.getVoidTy(), {pointer, i64, i64, pointer}, false);
  function_ =
      llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, entry_name, *module_);
  function_->setDSOLocal(true);
  function_->setVisibility(llvm::GlobalValue::HiddenVisibility);
  set_function_attributes(*function_, target_);
  function_->getArg(3)->addAttr(llvm::Attribute::NoAlias);

  auto* entry = llvm::BasicBlock::Create(*context_, "entry", function_);
  auto* body = llvm::BasicBlock::Create(*context_, "body", function_);
  builder_.SetInsertPoint(entry);
  variables_end_ = builder_.CreateBr(body);
  builder_.SetInsertPoint(body);
  root_ = std::make_unique<Scope>(nullptr, builder_.CreateRetVoid());

  llvm::IRBuilder<>& code = at(*root_);
  auto* call = function_->getArg(0);
  begin_ = function_->getArg(1);
  end_ = function_->getArg(2);
  scratch_ = function_->getArg(3);
  const auto invariant = [&](llvm::LoadInst* load) {
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(*context_, {}));
    return load;
  };
  const auto field = [&](unsigned position) {
    return invariant(
        code.CreateLoad(pointer, code.CreateConstInBoundsGEP1_64(pointer, call, position)));
  };
  auto* buffers = field(BuffersField);
  auto* extents = field(ExtentsField);
  error_ = field(ErrorField);
  host_ = field(HostField);

  const ir::Function& graph = region.body;
  parameters_ = graph.body.parameters.size();
  const auto add_buffer = [&](ir::ValueId value) {
    buffers_.push_back(invariant(code.CreateLoad(
        pointer, code.CreateConstInBoundsGEP1_64(pointer, buffers, buffers_.size()))));
    buffer_types_.push_back(graph.tensor_type(value));
  };
  for (const ir::ValueId value : graph.body.parameters) add_buffer(value);
  for (const ir::ValueId value : graph.body.results) add_buffer(value);

  const std::vector<std::string>& names = graph.symbols.names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    root_->define(
        {.symbol = names[i]},
        invariant(code.CreateLoad(i64, code.CreateConstInBoundsGEP1_64(i64, extents, i))));
  }
  ir::narrow(symbols_, region, bucket);
}

ir::Interval KernelBuilder::interval_of(const ir::Dim& dim) const {
  return ir::bounds_in(region_, bucket_, dim, symbols_);
}

llvm::AllocaInst* KernelBuilder::variable(llvm::Type* type, const std::string& name) {
  return new llvm::AllocaInst(type, 0, nullptr, module_->getDataLayout().getPrefTypeAlign(type),
                              name, variables_end_->getIterator());
}

llvm::Value* KernelBuilder::zeros(llvm::Type* type) {
  llvm::AllocaInst*& made = zeros_[type];
  if (made == nullptr) {
    made = variable(type, "zeros");
    new llvm::StoreInst(llvm::Constant::getNullValue(type), made, variables_end_->getIterator());
  }
  return made;
}

void KernelBuilder::guarded(Scope& scope, llvm::Value* condition, const Body& body) {
  branch(scope, condition, body, {});
}

void KernelBuilder::branch(Scope& scope, llvm::Value* condition, const Body& then,
                           const Body& otherwise) {
  llvm::Instruction* after = scope.anchor();
  llvm::BasicBlock* head = after->getParent();
  llvm::BasicBlock* rest = head->splitBasicBlock(after->getIterator(), "after");
  const auto add_block = [&](const char* name) {
    auto* block = llvm::BasicBlock::Create(*context_, name, function_, rest);
    builder_.SetInsertPoint(block);
    return builder_.CreateBr(rest);
  };
  llvm::Instruction* then_end = add_block("then");
  llvm::Instruction* otherwise_end = otherwise ? add_block("else") : nullptr;
  llvm::Instruction* old = head->getTerminator();
  builder_.SetInsertPoint(old);
  auto* choice = builder_.CreateCondBr(condition, then_end->getParent(),
                                       otherwise ? otherwise_end->getParent() : rest);
  old->eraseFromParent();
  scope.move_anchor(choice);
  {
    Scope inner(&scope, then_end);
    then(inner);
  }
  if (otherwise) {
    Scope inner(&scope, otherwise_end);
    otherwise(inner);
  }
  scope.move_anchor(after);
  builder_.SetInsertPoint(after);
}

void KernelBuilder::loop(Scope& scope, llvm::Value* begin, llvm::Value* end, std::int64_t step,
                         const LoopBody& body) {
  // The index never wraps, signed or unsigned: from a negative number on it would.
  const auto* first = llvm::dyn_cast<llvm::ConstantInt>(begin);
  internal_check(first == nullptr || !first->isNegative(), "a loop begins at 0 or later");
  llvm::Instruction* after = scope.anchor();
  llvm::BasicBlock* head = after->getParent();
  llvm::BasicBlock* rest = head->splitBasicBlock(after->getIterator(), "after");
  auto* block = llvm::BasicBlock::Create(*context_, "loop", function_, rest);
  head->getTerminator()->setSuccessor(0, block);
  scope.move_anchor(head->getTerminator());
  builder_.SetInsertPoint(block);
  llvm::PHINode* index = builder_.CreatePHI(builder_.getInt64Ty(), 2, "index");
  index->addIncoming(begin, head);
  auto* next =
      llvm::cast<llvm::Instruction>(builder_.CreateAdd(index, constant(step), "next", true, true));
  auto* more = builder_.CreateICmpSLT(next, end);
  builder_.CreateCondBr(more, block, rest);
  {
    Scope inner(&scope, next);
    body(inner, index);
  }
  index->addIncoming(next, next->getParent());
  scope.move_anchor(after);
  builder_.SetInsertPoint(after);
}

void KernelBuilder::for_range(Scope& scope, llvm::Value* begin, llvm::Value* end, std::int64_t step,
                              const LoopBody& body) {
  llvm::Value* some = at(scope).CreateICmpSLT(begin, end);
  guarded(scope, some, [&](Scope& inner) { loop(inner, begin, end, step, body); });
}

void KernelBuilder::fetch(llvm::Value* first, std::int64_t bytes, std::uint32_t level,
                          bool written) {
  constexpr std::uint32_t data = 1;
  for (std::int64_t at = 0; at < bytes; at += line_bytes) {
    llvm::Value* place =
        builder_.CreateConstGEP1_64(builder_.getInt8Ty(), first, static_cast<std::uint64_t>(at));
    builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {builder_.getPtrTy()},
                             {place, builder_.getInt32(written ? 1 : 0), builder_.getInt32(level),
                              builder_.getInt32(data)});
  }
}

llvm::Type* KernelBuilder::storage_type(ir::DType dtype) {
  if (dtype == ir::DType::F32 || dtype == ir::DType::F64) return value_type(dtype);
  return builder_.getIntNTy(static_cast<unsigned>(ir::size_of(dtype) * 8));
}

llvm::Type* KernelBuilder::value_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F64: return builder_.getDoubleTy();
    case ir::DType::F32:
    case ir::DType::F16:
    case ir::DType::BF16: return builder_.getFloatTy();
    case ir::DType::I64:
    case ir::DType::U64: return builder_.getInt64Ty();
    case ir::DType::I32:
    case ir::DType::U32: return builder_.getInt32Ty();
    case ir::DType::I16:
    case ir::DType::U16: return builder_.getInt16Ty();
    case ir::DType::I8:
    case ir::DType::U8: return builder_.getInt8Ty();
    case ir::DType::Bool: return builder_.getInt1Ty();
  }
  internal_error("an element type is one of the list");
}

llvm::Type* KernelBuilder::vector_of(llvm::Type* type, unsigned width) {
  return width == 1 ? type : llvm::FixedVectorType::get(type, width);
}

llvm::Value* KernelBuilder::splat(llvm::Value* scalar, unsigned width) {
  if (width == 1 || scalar->getType()->isVectorTy()) return scalar;
  return builder_.CreateVectorSplat(width, scalar);
}

llvm::Value* KernelBuilder::element_pointer(llvm::Value* pointer, ir::DType dtype,
                                            llvm::Value* offset) {
  return builder_.CreateGEP(storage_type(dtype), pointer, offset);
}

llvm::Value* KernelBuilder::call_host(unsigned position,
                                      const std::vector<llvm::Value*>& arguments) {
  auto* pointer = builder_.getPtrTy();
  auto* address =
      builder_.CreateLoad(pointer, builder_.CreateConstInBoundsGEP1_64(pointer, host_, position));
  address->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(*context_, {}));
  const std::vector<llvm::Type*> types(arguments.size(), builder_.getDoubleTy());
  auto* call = builder_.CreateCall(llvm::FunctionType::get(builder_.getDoubleTy(), types, false),
                                   address, arguments);
  call->setDoesNotThrow();
  call->setDoesNotAccessMemory();
  return call;
}

llvm::Function* KernelBuilder::report_function() {
  if (report_) return report_;
  auto* pointer = builder_.getPtrTy();
  auto* i32 = builder_.getInt32Ty();
  auto* i64 = builder_.getInt64Ty();
  auto* type = llvm::FunctionType::get(builder_.getVoidTy(), {pointer, i32, i64}, false);
  report_ = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "report", *module_);
  set_function_attributes(*report_, target_);
  report_->addFnAttr(llvm::Attribute::NoInline);
  report_->addFnAttr(llvm::Attribute::Cold);
  auto* entry = llvm::BasicBlock::Create(*context_, "entry", report_);
  auto* first = llvm::BasicBlock::Create(*context_, "first", report_);
  auto* done = llvm::BasicBlock::Create(*context_, "done", report_);
  llvm::IRBuilder<> code(entry);
  auto* exchange = code.CreateAtomicCmpXchg(
      report_->getArg(0), code.getInt32(static_cast<std::uint32_t>(-1)), report_->getArg(1),
      llvm::MaybeAlign(), llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic);
  code.CreateCondBr(code.CreateExtractValue(exchange, 1), first, done);
  code.SetInsertPoint(first);
  static_assert(offsetof(ir::KernelError, value) == 8);
  code.CreateStore(report_->getArg(2),
                   code.CreateConstInBoundsGEP1_64(code.getInt8Ty(), report_->getArg(0),
                                                   offsetof(ir::KernelError, value)));
  code.CreateBr(done);
  code.SetInsertPoint(done);
  code.CreateRetVoid();
  return report_;
}

void KernelBuilder::report(std::int32_t check, llvm::Value* value) {
  builder_.CreateCall(report_function(),
                      {error_, builder_.getInt32(static_cast<std::uint32_t>(check)), value});
}

ir::CompiledKernel KernelBuilder::finish(const ir::Dim& tasks, const ir::Dim& scratch_bytes) {
  const std::array<std::string, 2> entries{entry_name, "sizes"};
  add_shape_function(*module_, target_, ir::shapes_over(region_, {tasks, scratch_bytes}),
                     entries[1]);
  Blob blob = compile_module(*module_, *machine_, entries);
  ir::CompiledKernel kernel;
  kernel.code = std::move(blob.bytes);
  kernel.device = ir::CpuEntries{.kernel = blob.entry_offsets[0], .sizes = blob.entry_offsets[1]};
  kernel.tasks = tasks;
  kernel.scratch_bytes = scratch_bytes;
  kernel.resources.code_bytes = blob.code_bytes;
  return kernel;
}

}  // namespace anydim::codegen_cpu
