#include "codegen_cpu/scalars/scalar_emitter.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cpu {

namespace {

using ir::Dim;
using ir::DType;
using ir::ScalarStep;

}  // namespace

ProgramEmitter::ProgramEmitter(KernelBuilder& kernel, const ir::ScalarProgram& program,
                               Scope& floor, const std::vector<std::int32_t>& roots)
    : StepPlacer(ir::KernelProgram(program, roots, kernel.fresh_number(), kernel.symbols()), floor),
      kernel_(kernel) {}

void ProgramEmitter::set_accumulated(std::int32_t slot, llvm::Value* value, Scope& home) {
  accumulated_[slot] = {value, &home};
}

void ProgramEmitter::set_scratch(std::int32_t slot, llvm::Value* base, DType dtype,
                                 const Dim& index) {
  scratch_[slot] = {base, dtype, index};
}

const Dim& ProgramEmitter::offset_of(std::size_t buffer, std::vector<Dim> index) {
  const auto [known, fresh] = offsets_.try_emplace({buffer, std::move(index)});
  if (fresh)
    known->second =
        ir::linear_offset(known->first.second, kernel_.buffer_type(buffer).dims, kernel_.symbols());
  return known->second;
}

std::optional<ProgramEmitter::Placed> ProgramEmitter::given(std::int32_t position) {
  const ScalarStep& step = program().step(position);
  if (step.kind != ScalarStep::Kind::Accumulated) return std::nullopt;
  return accumulated_.at(step.slot);
}

// An element of scratch differs with what its index mentions.
Scope& ProgramEmitter::outermost_of(Scope& scope, std::int32_t position, Scope& floor) {
  const ScalarStep& step = program().step(position);
  if (step.kind != ScalarStep::Kind::Scratch) return floor;
  return ir::home_of_leaves(scope, floor, scratch_.at(step.slot).index.leaves());
}

llvm::Value* ProgramEmitter::holds(Scope& scope, const ScalarStep::Condition& condition) {
  return emit_condition(kernel_, scope, condition);
}

llvm::Value* ProgramEmitter::always(Scope& scope) { return kernel_.at(scope).getTrue(); }

llvm::Value* ProgramEmitter::binary(Scope& scope, llvm::Instruction::BinaryOps operation,
                                    llvm::Value* a, llvm::Value* b) {
  auto& at = kernel_.at(scope);
  if (a->getType()->isVectorTy() || b->getType()->isVectorTy()) {
    a = kernel_.splat(a, scope.lanes().width);
    b = kernel_.splat(b, scope.lanes().width);
  }
  return at.CreateBinOp(operation, a, b);
}

llvm::Value* ProgramEmitter::both(Scope& scope, llvm::Value* const& a, llvm::Value* const& b) {
  return binary(scope, llvm::Instruction::And, a, b);
}

llvm::Value* ProgramEmitter::either(Scope& scope, llvm::Value* const& a, llvm::Value* const& b) {
  return binary(scope, llvm::Instruction::Or, a, b);
}

llvm::Value* ProgramEmitter::reciprocal(Scope& scope, std::int32_t, llvm::Value* const& value) {
  return kernel_.at(scope).CreateFDiv(llvm::ConstantFP::get(value->getType(), 1.0), value);
}

llvm::Value* ProgramEmitter::product(Scope& scope, std::int32_t, llvm::Value* const& a,
                                     llvm::Value* const& b) {
  return binary(scope, llvm::Instruction::FMul, a, b);
}

llvm::Value* ProgramEmitter::emit(Scope& home, std::int32_t position,
                                  const std::vector<llvm::Value*>& operands) {
  const ScalarStep& step = program().step(position);
  switch (step.kind) {
    case ScalarStep::Kind::Constant: {
      llvm::Type* type = kernel_.value_type(step.dtype);
      if (ir::is_float(step.dtype)) return llvm::ConstantFP::get(type, step.real);
      return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(step.integer), true);
    }
    case ScalarStep::Kind::Extent: return emit_index_lanes(kernel_, home, step.index.at(0));
    case ScalarStep::Kind::Load: {
      const auto buffer = static_cast<std::size_t>(step.buffer);
      return load_elements(kernel_, home, kernel_.buffer(buffer), step.dtype,
                           offset_of(buffer, step.index), load_mask(home, position),
                           kernel_.is_constant(buffer));
    }
    case ScalarStep::Kind::Scratch: {
      const ScratchSlot& slot = scratch_.at(step.slot);
      return load_elements(kernel_, home, slot.base, slot.dtype, slot.index);
    }
    case ScalarStep::Kind::CheckedIndex: return checked_index(home, position, operands.at(0));
    case ScalarStep::Kind::Accumulated: break;
    case ScalarStep::Kind::Guarded:
    case ScalarStep::Kind::Apply: {
      std::vector<llvm::Value*> values = operands;
      llvm::Value* condition =
          step.kind == ScalarStep::Kind::Guarded ? conditions(home, step) : nullptr;
      llvm::Value* mask = step.kind == ScalarStep::Kind::Apply && step.check >= 0
                              ? mask_of(home, position)
                              : nullptr;
      if (condition) values.insert(values.begin(), condition);
      const bool vector = std::any_of(values.begin(), values.end(), [](llvm::Value* value) {
        return value->getType()->isVectorTy();
      });
      auto& at = kernel_.at(home);
      if (vector) {
        for (llvm::Value*& value : values) value = kernel_.splat(value, home.lanes().width);
      }
      if (condition) return at.CreateSelect(values[0], values[1], values[2]);
      return emit_elementwise(kernel_, home, step, dtype(step.operands.back()), values, mask);
    }
  }
  internal_error("a step is emitted by its kind");
}

llvm::Value* ProgramEmitter::checked_index(Scope& home, std::int32_t position, llvm::Value* index) {
  const ScalarStep& step = program().step(position);
  llvm::Value* extent = emit_index_lanes(kernel_, home, step.index.at(0));
  auto& at = kernel_.at(home);
  const bool vector = index->getType()->isVectorTy() || extent->getType()->isVectorTy();
  const unsigned width = vector ? home.lanes().width : 1;
  index = kernel_.splat(index, width);
  extent = kernel_.splat(extent, width);
  index = at.CreateIntCast(index, extent->getType(), ir::is_signed(dtype(step.operands.at(0))));
  auto* zero = llvm::Constant::getNullValue(index->getType());
  llvm::Value* counted =
      at.CreateSelect(at.CreateICmpSLT(index, zero), at.CreateAdd(index, extent), index);
  llvm::Value* outside = at.CreateICmpUGE(counted, extent);
  llvm::Value* result = at.CreateSelect(outside, zero, counted);
  report_where(kernel_, home, outside, mask_of(home, position), step.check, index);
  home.define(program().leaf_of(position), result);
  return result;
}

void report_where(KernelBuilder& kernel, Scope& scope, llvm::Value* failed, llvm::Value* mask,
                  std::int32_t check, llvm::Value* value) {
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

void ProgramEmitter::update(Scope& scope, const ir::Store& store,
                            const std::optional<ir::Op>& combine) {
  llvm::Value* stored = value(scope, store.step);
  for (const Dim& dim : store.index) place_indices(scope, dim);
  const ir::TensorType& type = kernel_.output_type(static_cast<std::size_t>(store.output));
  std::vector<Dim> index;
  for (const Dim& dim : store.index) index.push_back(program().own(dim));
  const Dim offset =
      offset_of(kernel_.parameters() + static_cast<std::size_t>(store.output), std::move(index));
  if (combine) {
    llvm::Value* there = load_elements(
        kernel_, scope, kernel_.output(static_cast<std::size_t>(store.output)), type.dtype, offset);
    ScalarStep step;
    step.kind = ScalarStep::Kind::Apply;
    step.op = *combine;
    step.dtype = type.dtype;
    const unsigned width =
        there->getType()->isVectorTy() || stored->getType()->isVectorTy() ? scope.lanes().width : 1;
    kernel_.at(scope);
    stored = emit_elementwise(kernel_, scope, step, type.dtype,
                              {kernel_.splat(there, width), kernel_.splat(stored, width)}, nullptr);
  }
  store_elements(kernel_, scope, kernel_.output(static_cast<std::size_t>(store.output)), type.dtype,
                 offset, stored);
}

}  // namespace anydim::codegen_cpu
