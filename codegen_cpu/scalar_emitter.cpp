#include "codegen_cpu/scalar_emitter.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/scalar_program.h"

namespace anydim::codegen_cpu {

namespace {

using ir::Dim;
using ir::DType;
using ir::ScalarStep;

}  // namespace

ProgramEmitter::ProgramEmitter(KernelBuilder& kernel, const ir::ScalarProgram& program, Scope& floor,
                               const std::vector<std::int32_t>& roots)
    : kernel_(kernel), floor_(floor), number_(kernel.fresh_number()), steps_(program.steps) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    ScalarStep& step = steps_[i];
    for (Dim& index : step.index) index = own(index);
    for (ScalarStep::Condition& condition : step.conditions) {
      condition.left = own(condition.left);
      condition.right = own(condition.right);
    }
    if (step.kind != ScalarStep::Kind::CheckedIndex) continue;
    // Programs of one kernel number their steps alike; their leaves must differ.
    const auto position = static_cast<std::int32_t>(i);
    const ir::DimLeaf leaf = ir::step_leaf(position, number_);
    names_.emplace(ir::step_leaf(position), Dim::of(leaf));
    ir::SymbolInfo info;
    info.below = step.index.at(0);
    kernel_.symbols().declare(leaf, std::move(info));
  }
  guards_ = ir::guards_of(program, roots);
  reduced_ = ir::computed_from_accumulated(program);
}

void ProgramEmitter::set_accumulated(std::int32_t slot, llvm::Value* value, Scope& home) { accumulated_[slot] = {value, &home}; }

void ProgramEmitter::set_scratch(std::int32_t slot, llvm::Value* base, DType dtype, const Dim& index) {
  scratch_[slot] = {base, dtype, index};
}

const Dim& ProgramEmitter::offset_of(std::size_t buffer, std::vector<Dim> index) {
  const auto [known, fresh] = offsets_.try_emplace({buffer, std::move(index)});
  if (fresh) known->second = ir::linear_offset(known->first.second, kernel_.buffer_type(buffer).dims, kernel_.symbols());
  return known->second;
}

ProgramEmitter::Placed ProgramEmitter::place(Scope& scope, std::int32_t position) {
  const auto key = std::pair(number_, position);
  for (Scope* at = &scope; at != nullptr; at = at->parent()) {
    if (const auto found = at->steps.find(key); found != at->steps.end()) return {found->second, at};
  }
  const ScalarStep& step = steps_.at(static_cast<std::size_t>(position));
  if (step.kind == ScalarStep::Kind::Accumulated) return accumulated_.at(step.slot);
  // A step in an index is an operand too: its scope must know it before the index is looked at.
  const auto need_symbols = [&](const Dim& dim) {
    for (const auto& [step, named] : names_)
      if (dim.mentions(named.leaf())) place(scope, step.step());
  };
  for (const Dim& index : step.index) need_symbols(index);
  for (const ScalarStep::Condition& condition : step.conditions) {
    need_symbols(condition.left);
    need_symbols(condition.right);
  }
  std::vector<Placed> operands;
  for (const std::int32_t operand : step.operands) operands.push_back(place(scope, operand));
  Scope& home = home_of_step(scope, step, position, operands);
  llvm::Value* value = emit(home, position, operands);
  home.steps[key] = value;
  return {value, &home};
}

Scope& ProgramEmitter::home_of_step(Scope& scope, const ScalarStep& step, std::int32_t position, const std::vector<Placed>& operands) {
  Scope* home = &floor_;
  const auto deepen = [&](Scope& other) {
    if (other.depth() > home->depth()) home = &other;
  };
  const auto deepen_conditions = [&](const ScalarStep& guarded) {
    for (const ScalarStep::Condition& condition : guarded.conditions) {
      deepen(home_of(kernel_, scope, condition.left));
      deepen(home_of(kernel_, scope, condition.right));
    }
  };
  for (const Placed& operand : operands) deepen(*operand.home);
  for (const Dim& index : step.index) deepen(home_of(kernel_, scope, index));
  deepen_conditions(step);
  if (step.kind == ScalarStep::Kind::Scratch) deepen(home_of(kernel_, scope, scratch_.at(step.slot).index));
  if (step.kind == ScalarStep::Kind::Load || step.kind == ScalarStep::Kind::CheckedIndex || step.kind == ScalarStep::Kind::Apply) {
    std::vector<std::int32_t> open = guards_[static_cast<std::size_t>(position)];
    for (std::size_t i = 0; i < open.size(); ++i) {
      deepen_conditions(steps_[static_cast<std::size_t>(open[i])]);
      for (const std::int32_t outer : guards_[static_cast<std::size_t>(open[i])]) open.push_back(outer);
    }
  }
  return *home;
}

llvm::Value* ProgramEmitter::conditions(Scope& scope, const ScalarStep& guarded) {
  llvm::Value* all = nullptr;
  for (const ScalarStep::Condition& condition : guarded.conditions) {
    llvm::Value* holds = emit_condition(kernel_, scope, condition);
    auto& at = kernel_.at(scope);
    if (all && (all->getType()->isVectorTy() || holds->getType()->isVectorTy())) {
      all = kernel_.splat(all, scope.lanes().width);
      holds = kernel_.splat(holds, scope.lanes().width);
    }
    all = all ? at.CreateAnd(all, holds) : holds;
  }
  return all ? all : kernel_.at(scope).getTrue();
}

llvm::Value* ProgramEmitter::mask_of(Scope& scope, std::int32_t position) {
  llvm::Value* any = nullptr;
  const auto combine = [&](llvm::Value* a, llvm::Value* b, llvm::Instruction::BinaryOps operation) {
    auto& at = kernel_.at(scope);
    if (a->getType()->isVectorTy() || b->getType()->isVectorTy()) {
      a = kernel_.splat(a, scope.lanes().width);
      b = kernel_.splat(b, scope.lanes().width);
    }
    return at.CreateBinOp(operation, a, b);
  };
  for (const std::int32_t guard : guards_[static_cast<std::size_t>(position)]) {
    llvm::Value* holds = conditions(scope, steps_[static_cast<std::size_t>(guard)]);
    if (llvm::Value* outer = mask_of(scope, guard)) holds = combine(holds, outer, llvm::Instruction::And);
    any = any ? combine(any, holds, llvm::Instruction::Or) : holds;
  }
  return any;
}

llvm::Value* ProgramEmitter::emit(Scope& home, std::int32_t position, const std::vector<Placed>& operands) {
  const ScalarStep& step = steps_[static_cast<std::size_t>(position)];
  switch (step.kind) {
    case ScalarStep::Kind::Constant: {
      llvm::Type* type = kernel_.value_type(step.dtype);
      if (ir::is_float(step.dtype)) return llvm::ConstantFP::get(type, step.real);
      return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(step.integer), true);
    }
    case ScalarStep::Kind::Extent: return emit_index_lanes(kernel_, home, step.index.at(0));
    case ScalarStep::Kind::Load: {
      const auto buffer = static_cast<std::size_t>(step.buffer);
      return load_elements(kernel_, home, kernel_.buffer(buffer), step.dtype, offset_of(buffer, step.index), mask_of(home, position), true);
    }
    case ScalarStep::Kind::Scratch: {
      const ScratchSlot& slot = scratch_.at(step.slot);
      return load_elements(kernel_, home, slot.base, slot.dtype, slot.index);
    }
    case ScalarStep::Kind::CheckedIndex: return emit_checked_index(home, position, operands.at(0).value);
    case ScalarStep::Kind::Accumulated: break;
    case ScalarStep::Kind::Guarded:
    case ScalarStep::Kind::Apply: {
      if (llvm::Value* quotient = emit_shared_division(home, position, operands)) return quotient;
      std::vector<llvm::Value*> values;
      for (const Placed& operand : operands) values.push_back(operand.value);
      llvm::Value* condition = step.kind == ScalarStep::Kind::Guarded ? conditions(home, step) : nullptr;
      llvm::Value* mask = step.kind == ScalarStep::Kind::Apply && step.check >= 0 ? mask_of(home, position) : nullptr;
      if (condition) values.insert(values.begin(), condition);
      const bool vector = std::any_of(values.begin(), values.end(), [](llvm::Value* value) { return value->getType()->isVectorTy(); });
      auto& at = kernel_.at(home);
      if (vector) {
        for (llvm::Value*& value : values) value = kernel_.splat(value, home.lanes().width);
      }
      if (condition) return at.CreateSelect(values[0], values[1], values[2]);
      const DType operand_dtype = steps_[static_cast<std::size_t>(step.operands.back())].dtype;
      return emit_elementwise(kernel_, home, step, operand_dtype, values, mask);
    }
  }
  internal_error("a step is emitted by its kind");
}

llvm::Value* ProgramEmitter::emit_shared_division(Scope& home, std::int32_t position, const std::vector<Placed>& operands) {
  const ScalarStep& step = steps_[static_cast<std::size_t>(position)];
  if (step.kind != ScalarStep::Kind::Apply || step.op != ir::Op::div || step.dtype != DType::F32) return nullptr;
  const std::int32_t divisor = step.operands[1];
  if (!reduced_[static_cast<std::size_t>(divisor)] || operands[1].home->depth() >= home.depth()) return nullptr;
  // Kept beside the steps, under numbers that no step has.
  llvm::Value*& reciprocal = operands[1].home->steps[{number_, -1 - divisor}];
  if (reciprocal == nullptr) {
    auto& outside = kernel_.at(*operands[1].home);
    reciprocal = outside.CreateFDiv(llvm::ConstantFP::get(operands[1].value->getType(), 1.0), operands[1].value);
  }
  auto& at = kernel_.at(home);
  llvm::Value *dividend = operands[0].value, *factor = reciprocal;
  if (dividend->getType()->isVectorTy() || factor->getType()->isVectorTy()) {
    dividend = kernel_.splat(dividend, home.lanes().width);
    factor = kernel_.splat(factor, home.lanes().width);
  }
  return at.CreateFMul(dividend, factor);
}

llvm::Value* ProgramEmitter::emit_checked_index(Scope& home, std::int32_t position, llvm::Value* index) {
  const ScalarStep& step = steps_[static_cast<std::size_t>(position)];
  const DType dtype = steps_[static_cast<std::size_t>(step.operands.at(0))].dtype;
  llvm::Value* extent = emit_index_lanes(kernel_, home, step.index.at(0));
  auto& at = kernel_.at(home);
  const bool vector = index->getType()->isVectorTy() || extent->getType()->isVectorTy();
  const unsigned width = vector ? home.lanes().width : 1;
  index = kernel_.splat(index, width);
  extent = kernel_.splat(extent, width);
  index = at.CreateIntCast(index, extent->getType(), ir::is_signed(dtype));
  auto* zero = llvm::Constant::getNullValue(index->getType());
  llvm::Value* counted = at.CreateSelect(at.CreateICmpSLT(index, zero), at.CreateAdd(index, extent), index);
  llvm::Value* outside = at.CreateICmpUGE(counted, extent);
  llvm::Value* result = at.CreateSelect(outside, zero, counted);
  report_where(kernel_, home, outside, mask_of(home, position), step.check, index);
  home.define(ir::step_leaf(position, number_), result);
  return result;
}

void report_where(KernelBuilder& kernel, Scope& scope, llvm::Value* failed, llvm::Value* mask, std::int32_t check, llvm::Value* value) {
  const unsigned width = failed->getType()->isVectorTy() ? scope.lanes().width : 1;
  auto& at = kernel.at(scope);
  if (width > 1) {
    for (llvm::Value* also : {mask, scope.lanes().mask}) {
      if (also) failed = at.CreateAnd(failed, kernel.splat(also, width));
    }
    auto* lanes = at.CreateBitCast(failed, at.getIntNTy(width));
    auto* none = llvm::ConstantInt::get(lanes->getType(), 0);
    kernel.guarded(scope, at.CreateICmpNE(lanes, none), [&](Scope& inner) {
      auto& code = kernel.at(inner);
      auto* first = code.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, lanes, code.getTrue());
      kernel.report(check, code.CreateExtractElement(value, first));
    });
    return;
  }
  if (mask) failed = at.CreateAnd(failed, mask);
  kernel.guarded(scope, failed, [&](Scope& inner) {
    kernel.at(inner);
    kernel.report(check, value);
  });
}

void ProgramEmitter::store(Scope& scope, const ir::Store& store) { update(scope, store, std::nullopt); }

void ProgramEmitter::update(Scope& scope, const ir::Store& store, const std::optional<ir::Op>& combine) {
  llvm::Value* stored = value(scope, store.step);
  for (const Dim& dim : store.index) {
    for (const ir::DimLeaf& leaf : dim.leaves()) {
      if (leaf.is_step()) value(scope, leaf.step());
    }
  }
  const ir::TensorType& type = kernel_.output_type(static_cast<std::size_t>(store.output));
  std::vector<Dim> index;
  for (const Dim& dim : store.index) index.push_back(own(dim));
  const Dim offset = offset_of(kernel_.parameters() + static_cast<std::size_t>(store.output), std::move(index));
  if (combine) {
    llvm::Value* there = load_elements(kernel_, scope, kernel_.output(static_cast<std::size_t>(store.output)), type.dtype, offset);
    ScalarStep step;
    step.kind = ScalarStep::Kind::Apply;
    step.op = *combine;
    step.dtype = type.dtype;
    const unsigned width = there->getType()->isVectorTy() || stored->getType()->isVectorTy() ? scope.lanes().width : 1;
    kernel_.at(scope);
    stored = emit_elementwise(kernel_, scope, step, type.dtype, {kernel_.splat(there, width), kernel_.splat(stored, width)}, nullptr);
  }
  store_elements(kernel_, scope, kernel_.output(static_cast<std::size_t>(store.output)), type.dtype, offset, stored);
}

}  // namespace anydim::codegen_cpu
