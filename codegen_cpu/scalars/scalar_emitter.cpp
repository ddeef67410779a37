#include "codegen_cpu/scalars/scalar_emitter.h"

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/overloaded.h"

namespace anydim::codegen_cpu {

ProgramEmitter::ProgramEmitter(KernelBuilder& kernel, const ir::ScalarProgram& program,
                               Scope& floor, const std::vector<std::int32_t>& roots)
    : StepPlacer(ir::KernelProgram(program, roots, kernel.fresh_number(), kernel.symbols()), floor),
      kernel_(kernel) {}

void ProgramEmitter::set_scratch(std::int32_t slot, llvm::Value* base, DType dtype,
                                 const Dim& index) {
  scratch_[slot] = {base, dtype, index};
}

const Dim& ProgramEmitter::offset_of(std::size_t buffer, const std::vector<Dim>& index) {
  const auto [known, fresh] = offsets_.try_emplace({buffer, index});
  if (fresh)
    known->second = ir::linear_offset(index, kernel_.buffer_type(buffer).dims, kernel_.symbols());
  return known->second;
}

// An element of scratch differs with what its index mentions.
Scope& ProgramEmitter::outermost_of(Scope& scope, std::int32_t position, Scope& floor) {
  const ScalarStep& step = program().step(position);
  const auto* element = std::get_if<ir::step::Scratch>(&step.kind);
  if (!element) return floor;
  return ir::home_of_leaves(scope, floor, scratch_.at(element->slot).index.leaves());
}

llvm::Value* ProgramEmitter::mask(Scope& scope, const ir::KernelMask& mask) {
  llvm::Value* any = nullptr;
  for (const auto& conditions : mask.alternatives)
    any = emit_joined(kernel_, scope, llvm::Instruction::Or, any,
                      emit_all_of(kernel_, scope, conditions));
  return any;
}

llvm::Value* ProgramEmitter::write(Scope& home, const ir::PlacedInverse& inverse) {
  llvm::Value* of = value_of(home, inverse.of);
  return kernel_.at(home).CreateFDiv(llvm::ConstantFP::get(of->getType(), 1.0), of);
}

llvm::Value* ProgramEmitter::write(Scope& home, const ir::PlacedStep& placed) {
  const DType dtype = placed.step.dtype;
  const ir::Overloaded emit{
      [&](const ir::step::Constant& constant) -> llvm::Value* {
        llvm::Type* type = kernel_.value_type(dtype);
        if (ir::is_float(dtype)) return llvm::ConstantFP::get(type, constant.real);
        return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(constant.integer), true);
      },
      [&](const ir::step::Extent& extent) { return emit_index_lanes(kernel_, home, extent.value); },
      [&](const ir::step::Load& load) {
        const auto buffer = static_cast<std::size_t>(load.buffer);
        return load_elements(kernel_, home, kernel_.buffer(buffer), dtype,
                             offset_of(buffer, load.index), mask(home, placed.mask),
                             kernel_.is_constant(buffer));
      },
      [&](const ir::step::Scratch& element) {
        const ScratchSlot& slot = scratch_.at(element.slot);
        return load_elements(kernel_, home, slot.base, slot.dtype, slot.index);
      },
      [&](const ir::step::CheckedIndex& index) { return checked_index(home, placed, index); },
      [&](const ir::step::Guarded& guarded) { return select(home, placed, guarded); },
      [&](const ir::step::Apply&) {
        const std::vector<llvm::Value*> values = operands(home, placed);
        return emit_elementwise(kernel_, home, placed.step, program().operand_dtype(placed.number),
                                values, mask(home, placed.mask));
      },
      [](const ir::step::Accumulated&) -> llvm::Value* {
        internal_error("a slot is no statement");
      },
  };
  return std::visit(emit, placed.step.kind);
}

std::vector<llvm::Value*> ProgramEmitter::operands(Scope& home, const ir::PlacedStep& placed,
                                                   llvm::Value* first) {
  std::vector<llvm::Value*> values;
  if (first) values.push_back(first);
  for (const ir::KernelValue& operand : placed.operands) values.push_back(value_of(home, operand));
  const bool vector = std::ranges::any_of(
      values, [](llvm::Value* value) { return value->getType()->isVectorTy(); });
  kernel_.at(home);
  if (vector)
    for (llvm::Value*& value : values) value = kernel_.splat(value, home.lanes().width);
  return values;
}

// Whether what is guarded is a load that runs nowhere else, and 0 stands where it does not: that is
// what it reads there.
bool ProgramEmitter::reads_zero_instead(const ScalarStep& step) const {
  const ScalarStep &value = program().step(step.operands[0]),
                   &other = program().step(step.operands[1]);
  const auto* zero = std::get_if<ir::step::Constant>(&other.kind);
  if (!value.is<ir::step::Load>() || zero == nullptr || zero->integer != 0 || zero->real != 0 ||
      std::signbit(zero->real))
    return false;
  const ir::KernelMask mask = program().mask(step.operands[0]);
  return !mask.alternatives.empty() &&
         std::ranges::all_of(mask.alternatives, [&](const auto& alternative) {
           return std::ranges::all_of(
               step.as<ir::step::Guarded>().conditions, [&](const auto& condition) {
                 return std::ranges::find(alternative, condition) != alternative.end();
               });
         });
}

llvm::Value* ProgramEmitter::select(Scope& home, const ir::PlacedStep& placed,
                                    const ir::step::Guarded& guarded) {
  if (reads_zero_instead(program().step(placed.number))) return value_of(home, placed.operands[0]);
  const std::vector<llvm::Value*> values =
      operands(home, placed, emit_all_of(kernel_, home, guarded.conditions));
  return kernel_.at(home).CreateSelect(values[0], values[1], values[2]);
}

llvm::Value* ProgramEmitter::checked_index(Scope& home, const ir::PlacedStep& placed,
                                           const ir::step::CheckedIndex& checked) {
  llvm::Value* index = value_of(home, placed.operands.at(0));
  llvm::Value* extent = emit_index_lanes(kernel_, home, checked.extent);
  auto& at = kernel_.at(home);
  const bool vector = index->getType()->isVectorTy() || extent->getType()->isVectorTy();
  const unsigned width = vector ? home.lanes().width : 1;
  index = kernel_.splat(index, width);
  extent = kernel_.splat(extent, width);
  index = at.CreateIntCast(index, extent->getType(),
                           ir::is_signed(program().operand_dtype(placed.number)));
  auto* zero = llvm::Constant::getNullValue(index->getType());
  llvm::Value* counted =
      at.CreateSelect(at.CreateICmpSLT(index, zero), at.CreateAdd(index, extent), index);
  llvm::Value* outside = at.CreateICmpUGE(counted, extent);
  llvm::Value* result = at.CreateSelect(outside, zero, counted);
  report_where(kernel_, home, outside, mask(home, placed.mask), checked.check, index);
  home.define(program().leaf_of(placed.number), result);
  return result;
}

void report_where(KernelBuilder& kernel, Scope& scope, llvm::Value* failed, llvm::Value* mask,
                  std::int32_t check, llvm::Value* value) {
  const bool differs =
      failed->getType()->isVectorTy() || (mask != nullptr && mask->getType()->isVectorTy());
  const unsigned width = differs ? scope.lanes().width : 1;
  auto& at = kernel.at(scope);
  if (differs) {
    failed = kernel.splat(failed, width);
    value = kernel.splat(value, width);
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

void ProgramEmitter::write(Scope& scope, const ir::PlacedStore& store) {
  llvm::Value* where = mask(scope, store.mask);
  if (!where) return put(scope, store);
  internal_check(!where->getType()->isVectorTy(), "lanes agree on the extents of a result");
  kernel_.guarded(scope, where, [&](Scope& inner) { put(inner, store); });
}

void ProgramEmitter::put(Scope& scope, const ir::PlacedStore& store) {
  const auto output = static_cast<std::size_t>(store.output);
  const DType dtype = kernel_.output_type(output).dtype;
  const Dim& offset = offset_of(kernel_.parameters() + output, store.index);
  llvm::Value* stored = value_of(scope, store.value);
  if (store.combine) {
    llvm::Value* there = load_elements(kernel_, scope, kernel_.output(output), dtype, offset);
    const ScalarStep step{dtype, ir::step::Apply{*store.combine}};
    const unsigned width =
        there->getType()->isVectorTy() || stored->getType()->isVectorTy() ? scope.lanes().width : 1;
    kernel_.at(scope);
    stored = emit_elementwise(kernel_, scope, step, dtype,
                              {kernel_.splat(there, width), kernel_.splat(stored, width)}, nullptr);
  }
  store_elements(kernel_, scope, kernel_.output(output), dtype, offset, stored);
}

}  // namespace anydim::codegen_cpu
