// One kernel under construction: its LLVM module, its arguments, its loops. Every emitter works
// through one of these.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen_cpu/scalars/scope.h"
#include "codegen_cpu/target.h"
#include "ir/backend.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

class KernelBuilder {
 public:
  // Starts void kernel(KernelCall*, i64 begin, i64 end, scratch). `symbols` are the form's,
  // narrowed to `bucket`.
  KernelBuilder(const Target& target, const ir::Region& region, const ir::LoopForm& form,
                const ir::Bucket& bucket);

  const Target& target() const { return target_; }
  const ir::Region& region() const { return region_; }
  const ir::LoopForm& form() const { return form_; }
  // Values that `dim` takes within the bucket.
  ir::Interval interval_of(const ir::Dim& dim) const;
  ir::SymbolTable& symbols() { return symbols_; }
  llvm::LLVMContext& context() { return *context_; }
  llvm::Module& module() { return *module_; }
  llvm::Function& function() { return *function_; }

  // The entry: region symbols are defined there.
  Scope& root() { return *root_; }
  llvm::Value* begin() const { return begin_; }  // i64, tasks of this call
  llvm::Value* end() const { return end_; }
  llvm::Value* scratch() const { return scratch_; }
  llvm::Value* error() const { return error_; }  // KernelError*

  // Region parameters, then results. Distinct buffers never overlap, but for a result that lies in
  // the place of a parameter that may_be_overwritten.
  std::size_t parameters() const { return parameters_; }
  llvm::Value* buffer(std::size_t position) const { return buffers_.at(position); }
  bool is_buffer(const llvm::Value* pointer) const {
    return std::find(buffers_.begin(), buffers_.end(), pointer) != buffers_.end();
  }
  void may_be_overwritten(std::size_t parameter) { overwritable_.insert(parameter); }
  // While the kernel runs.
  bool is_constant(std::size_t position) const {
    return position < parameters_ && !overwritable_.contains(position);
  }
  const ir::TensorType& buffer_type(std::size_t position) const {
    return buffer_types_.at(position);
  }
  llvm::Value* output(std::size_t position) const { return buffers_.at(parameters_ + position); }
  const ir::TensorType& output_type(std::size_t position) const {
    return buffer_types_.at(parameters_ + position);
  }

  // The IR builder, set to add code to `scope`.
  llvm::IRBuilder<>& at(Scope& scope) {
    builder_.SetInsertPoint(scope.anchor());
    return builder_;
  }
  // The builder as it stands.
  llvm::IRBuilder<>& here() { return builder_; }

  // Memory on the kernel's stack, made once at entry; scalars and vectors of it become registers
  // (loop-carried accumulators are variables that are loaded and stored).
  llvm::AllocaInst* variable(llvm::Type* type, const std::string& name);
  // Memory that is never written, for what is read in place of elements that are not there.
  llvm::Value* zeros(llvm::Type* type);

  using Body = std::function<void(Scope&)>;
  using LoopBody = std::function<void(Scope&, llvm::Value* index)>;
  // Runs body where condition (i1) holds.
  void guarded(Scope& scope, llvm::Value* condition, const Body& body);
  void branch(Scope& scope, llvm::Value* condition, const Body& then, const Body& otherwise);
  // index = begin, begin + step, ... while index < end; `begin` is not negative, and the range is
  // known not to be empty: the body runs at least once.
  void loop(Scope& scope, llvm::Value* begin, llvm::Value* end, std::int64_t step,
            const LoopBody& body);
  // The same over a range that may be empty.
  void for_range(Scope& scope, llvm::Value* begin, llvm::Value* end, std::int64_t step,
                 const LoopBody& body);

  llvm::Value* constant(std::int64_t value) {
    return builder_.getInt64(static_cast<std::uint64_t>(value));
  }
  // of one element in memory: bool is i8, f16 and bf16 are i16
  llvm::Type* storage_type(ir::DType dtype);
  // of one element in a register: bool is i1, f16 and bf16 are float
  llvm::Type* value_type(ir::DType dtype);
  llvm::Type* vector_of(llvm::Type* type, unsigned width);  // the type itself for width 1
  llvm::Value* splat(llvm::Value* scalar, unsigned width);  // at here(); a vector stays as it is
  // Address of element `offset` (i64) of a buffer of `dtype` at `pointer`.
  llvm::Value* element_pointer(llvm::Value* pointer, ir::DType dtype, llvm::Value* offset);

  // Fetches the lines of `bytes` from `first` on into the first-level cache (3) or the second-level
  // one (2), at here(). Any address will do.
  void fetch(llvm::Value* first, std::int64_t bytes, std::uint32_t level, bool written = false);

  // host functions, at here(): double(double) or double(double, double), by position in
  // HostFunctions
  llvm::Value* call_host(unsigned position, const std::vector<llvm::Value*>& arguments);
  // Sets the error slot (first failure wins), at here().
  void report(std::int32_t check, llvm::Value* value);
  std::uint32_t fresh_number() { return ++numbers_; }

  // Compiles. Nothing may be added afterwards.
  ir::CompiledKernel finish(const ir::Dim& tasks, const ir::Dim& scratch_bytes);

 private:
  llvm::Function* report_function();

  Target target_;
  const ir::Region& region_;
  const ir::LoopForm& form_;
  ir::Bucket bucket_;
  ir::SymbolTable symbols_;
  std::unique_ptr<llvm::LLVMContext> context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> builder_;
  llvm::Function* function_ = nullptr;
  llvm::Function* report_ = nullptr;
  llvm::Instruction* variables_end_ = nullptr;
  std::map<llvm::Type*, llvm::AllocaInst*> zeros_;
  std::unique_ptr<Scope> root_;
  llvm::Value *begin_ = nullptr, *end_ = nullptr, *scratch_ = nullptr, *error_ = nullptr,
              *host_ = nullptr;
  std::size_t parameters_ = 0;
  std::vector<llvm::Value*> buffers_;
  std::vector<ir::TensorType> buffer_types_;
  std::set<std::size_t> overwritable_;
  std::uint32_t numbers_ = 0;
};

// Adds the attributes every generated function carries: no unwinding, no library calls, the
// target's features.
void set_function_attributes(llvm::Function& function, const Target& target);

}  // namespace anydim::codegen_cpu
