#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>

#include <bit>

#include "codegen_cpu/scalars/scalar_emitter.h"
#include "ir/dims/affine.h"

namespace anydim::codegen_cpu {

namespace {

unsigned width_of(llvm::Value* value) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return type ? type->getNumElements() : 1;
}

llvm::Type* like(llvm::Value* value, llvm::Type* element) {
  return width_of(value) == 1 ? element : llvm::FixedVectorType::get(element, width_of(value));
}

llvm::Constant* bits(llvm::Type* type, std::uint64_t value) {
  return llvm::ConstantInt::get(type, value);
}

// IEEE half to float by integer arithmetic, where the processor has no conversion: the exponent is
// rebased, infinities and NaNs get the largest exponent, and denormals are normalised by
// subtracting the smallest normal as a float.
llvm::Value* half_to_float(llvm::IRBuilder<>& at, llvm::Value* half) {
  auto* i32 = like(half, at.getInt32Ty());
  auto* f32 = like(half, at.getFloatTy());
  auto* wide = at.CreateZExt(half, i32);
  auto* sign = at.CreateShl(at.CreateAnd(wide, bits(i32, 0x8000)), 16);
  auto* body = at.CreateShl(at.CreateAnd(wide, bits(i32, 0x7fff)), 13);
  auto* exponent = at.CreateAnd(body, bits(i32, 0x0f800000));
  auto* normal = at.CreateAdd(body, bits(i32, std::uint64_t{127 - 15} << 23));
  auto* special = at.CreateAdd(normal, bits(i32, std::uint64_t{128 - 16} << 23));
  auto* smallest = at.CreateBitCast(bits(i32, std::uint64_t{127 - 14} << 23), f32);
  auto* shifted = at.CreateBitCast(at.CreateAdd(normal, bits(i32, std::uint64_t{1} << 23)), f32);
  auto* denormal = at.CreateBitCast(at.CreateFSub(shifted, smallest), i32);
  auto* is_special = at.CreateICmpEQ(exponent, bits(i32, 0x0f800000));
  auto* is_small = at.CreateICmpEQ(exponent, bits(i32, 0));
  auto* magnitude =
      at.CreateSelect(is_special, special, at.CreateSelect(is_small, denormal, normal));
  return at.CreateBitCast(at.CreateOr(magnitude, sign), f32);
}

// The other way, to nearest even: adding a float whose last place is the half's last place rounds
// denormals; the rest is rounded in the bits.
llvm::Value* float_to_half(llvm::IRBuilder<>& at, llvm::Value* value) {
  auto* i32 = like(value, at.getInt32Ty());
  auto* f32 = like(value, at.getFloatTy());
  auto* whole = at.CreateBitCast(value, i32);
  auto* sign = at.CreateAnd(whole, bits(i32, 0x80000000));
  auto* magnitude = at.CreateXor(whole, sign);
  auto* magic = bits(i32, std::uint64_t{(127 - 15) + (23 - 10) + 1} << 23);
  auto* small_sum = at.CreateFAdd(at.CreateBitCast(magnitude, f32), at.CreateBitCast(magic, f32));
  auto* small = at.CreateSub(at.CreateBitCast(small_sum, i32), magic);
  auto* odd = at.CreateAnd(at.CreateLShr(magnitude, 13), bits(i32, 1));
  auto* rebased = at.CreateAdd(at.CreateAdd(magnitude, bits(i32, 0xc8000fff)), odd);
  auto* normal = at.CreateLShr(rebased, 13);
  auto* special = at.CreateSelect(at.CreateICmpUGT(magnitude, bits(i32, 0x7f800000)),
                                  bits(i32, 0x7e00), bits(i32, 0x7c00));
  auto* finite = at.CreateSelect(at.CreateICmpULT(magnitude, bits(i32, 0x38800000)), small, normal);
  auto* result =
      at.CreateSelect(at.CreateICmpUGE(magnitude, bits(i32, 0x47800000)), special, finite);
  return at.CreateTrunc(at.CreateOr(result, at.CreateLShr(sign, 16)), like(value, at.getInt16Ty()));
}

// By the processor's own instruction where there is one for as many lanes: LLVM takes what stands
// between its own conversions for arithmetic in halves, which it does lane by lane.
llvm::Value* narrow_to_half(KernelBuilder& kernel, llvm::Value* value) {
  auto& at = kernel.here();
  auto* to_nearest = at.getInt32(0);
  auto* type = like(value, at.getInt16Ty());
  if (width_of(value) == 8)
    return at.CreateIntrinsic(llvm::Intrinsic::x86_vcvtps2ph_256, {}, {value, to_nearest});
  if (width_of(value) == 16 && kernel.target().level == Level::Avx512)
    return at.CreateIntrinsic(
        llvm::Intrinsic::x86_avx512_mask_vcvtps2ph_512, {},
        {value, to_nearest, llvm::Constant::getNullValue(type), at.getInt16(0xffff)});
  return at.CreateBitCast(at.CreateFPTrunc(value, like(value, at.getHalfTy())), type);
}

llvm::Value* float_to_bfloat16(llvm::IRBuilder<>& at, llvm::Value* value) {
  auto* i32 = like(value, at.getInt32Ty());
  auto* whole = at.CreateBitCast(value, i32);
  auto* odd = at.CreateAnd(at.CreateLShr(whole, 16), bits(i32, 1));
  auto* rounded = at.CreateLShr(at.CreateAdd(at.CreateAdd(whole, bits(i32, 0x7fff)), odd), 16);
  auto* quiet = at.CreateOr(at.CreateLShr(whole, 16), bits(i32, 0x40));
  return at.CreateTrunc(at.CreateSelect(at.CreateFCmpUNO(value, value), quiet, rounded),
                        like(value, at.getInt16Ty()));
}

// What `value` was widened from, where it is a bf16 widened: loaded, or rounded by a cast that a
// store follows.
llvm::Value* bfloat16_widened(llvm::Value* value) {
  namespace match = llvm::PatternMatch;
  llvm::Value* stored = nullptr;
  if (!match::match(value, match::m_BitCast(match::m_Shl(match::m_ZExt(match::m_Value(stored)),
                                                         match::m_SpecificInt(16)))))
    return nullptr;
  return stored->getType()->getScalarType()->isIntegerTy(16) ? stored : nullptr;
}

// Both masks where there are two; null is "all".
llvm::Value* both(KernelBuilder& kernel, Scope& scope, llvm::Value* a, llvm::Value* b) {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  auto& at = kernel.at(scope);
  const unsigned width = std::max(width_of(a), width_of(b));
  return at.CreateAnd(kernel.splat(a, width), kernel.splat(b, width));
}

// Where each lane's element lies: a pointer, and the number of elements from there.
struct LanePlaces {
  llvm::Value *first = nullptr, *offsets = nullptr;
};

LanePlaces lane_places(KernelBuilder& kernel, Scope& scope, llvm::Value* base, DType dtype,
                       const ir::Dim& offset) {
  const unsigned width = scope.lanes().width;
  if (const auto stride = lane_stride(scope, offset, kernel.symbols())) {
    llvm::Value* first = emit_pointer(kernel, scope, base, dtype, offset);
    llvm::Value* step = emit_index(kernel, scope, *stride);
    auto& at = kernel.at(scope);
    return {first,
            at.CreateMul(at.CreateVectorSplat(width, step),
                         at.CreateStepVector(llvm::FixedVectorType::get(at.getInt64Ty(), width)))};
  }
  // What lanes share is added to the base: what is left are mostly narrow numbers, which gathers
  // take faster.
  Dim shared(offset.constant_part()), apart = offset - shared;
  if (apart.kind() == Dim::Kind::Sum) {
    for (const Dim::Term& term : apart.terms()) {
      const Dim part = ir::as_dim(term);
      if (!differs_between_lanes(scope, part)) shared = shared + part;
    }
    apart = offset - shared;
  }
  llvm::Value* first = emit_pointer(kernel, scope, base, dtype, shared);
  llvm::Value* offsets = emit_index_lanes(kernel, scope, apart);
  kernel.at(scope);
  return {first, kernel.splat(offsets, width)};
}

// Elements of fewer than 32 bits, which no instruction gathers: out of the aligned word around
// each, which lies in one page with its elements and so can be read wherever they can. At here().
llvm::Value* gather_from_words(KernelBuilder& kernel, llvm::Type* element, const LanePlaces& places,
                               llvm::Value* mask) {
  auto& at = kernel.here();
  constexpr unsigned word_bytes = 4;
  const unsigned bits_each = element->getIntegerBitWidth(), in_word = 8 * word_bytes / bits_each;
  auto* offsets = places.offsets;
  const auto all = [&](std::uint64_t number) { return bits(offsets->getType(), number); };
  const unsigned width = width_of(offsets);
  auto* address = at.CreatePtrToInt(places.first, at.getInt64Ty());
  // Elements from the start of the word that holds the first.
  auto* ahead = at.CreateUDiv(at.CreateAnd(address, word_bytes - 1), at.getInt64(bits_each / 8));
  auto* words =
      at.CreateIntrinsic(llvm::Intrinsic::ptrmask, {places.first->getType(), at.getInt64Ty()},
                         {places.first, at.getInt64(~std::uint64_t{word_bytes - 1})});
  auto* low =
      at.CreateNSWAdd(at.CreateAnd(offsets, all(in_word - 1)), at.CreateVectorSplat(width, ahead));
  const unsigned shift = std::countr_zero(in_word);
  auto* index = at.CreateNSWAdd(at.CreateAShr(offsets, shift), at.CreateLShr(low, shift));
  auto* type = llvm::FixedVectorType::get(at.getInt32Ty(), width);
  auto* loaded =
      at.CreateMaskedGather(type, at.CreateGEP(at.getInt32Ty(), words, index),
                            llvm::Align(word_bytes), mask, llvm::Constant::getNullValue(type));
  auto* place = at.CreateTrunc(at.CreateAnd(low, all(in_word - 1)), type);
  auto* down = at.CreateMul(place, bits(type, bits_each));
  return at.CreateTrunc(at.CreateLShr(loaded, down), llvm::FixedVectorType::get(element, width));
}

// Whether the processor loads and stores some lanes of such a vector; LLVM branches for each lane
// where it does not.
bool masks_in_line(const KernelBuilder& kernel, const llvm::Type* type) {
  const Level level = kernel.target().level;
  return level == Level::Avx512 || (level == Level::Avx2 && type->getScalarSizeInBits() >= 32);
}

// Consecutive elements of those lanes. At here().
llvm::Value* load_masked(KernelBuilder& kernel, llvm::FixedVectorType* type, llvm::Value* pointer,
                         llvm::Align alignment, llvm::Value* mask) {
  auto& at = kernel.here();
  if (masks_in_line(kernel, type) || kernel.target().level == Level::Baseline)
    return at.CreateMaskedLoad(type, pointer, alignment, mask, llvm::Constant::getNullValue(type));
  return gather_from_words(kernel, type->getElementType(),
                           {pointer, at.CreateStepVector(llvm::FixedVectorType::get(
                                         at.getInt64Ty(), type->getNumElements()))},
                           mask);
}

// Distances up to which reading what lies between is less work than a gather.
constexpr std::int64_t most_interleaved = 4;

// Elements 0, step, 2 step, ... from `pointer`, read as whole vectors of at least `step` lanes.
// Without a mask the last of these ends with the last element, so that nothing behind it is read;
// with one, only lanes of those elements are touched. At here().
llvm::Value* load_every(KernelBuilder& kernel, llvm::Type* element, llvm::Value* pointer,
                        unsigned width, unsigned step, llvm::Align alignment, llvm::Value* mask) {
  auto& at = kernel.here();
  auto* type = llvm::FixedVectorType::get(element, width);
  auto* none = llvm::Constant::getNullValue(type);
  llvm::Value* result = none;
  for (unsigned part = 0; part < step; ++part) {
    const unsigned begin = mask == nullptr && part + 1 == step ? part * (width - 1) : part * width;
    // Lane j of this vector is element begin + j; of the result, lane l comes from element l *
    // step.
    std::vector<int> wanted(width, static_cast<int>(width)), order(width);
    for (unsigned lane = 0; lane < width; ++lane) {
      const unsigned from = lane * step;
      const bool here = from / width == part;
      if (here) wanted[from - begin] = static_cast<int>(lane);
      order[lane] = static_cast<int>(here ? width + from - begin : lane);
    }
    llvm::Value* place = at.CreateConstGEP1_64(element, pointer, begin);
    llvm::Value* loaded = nullptr;
    if (mask == nullptr) {
      loaded = at.CreateAlignedLoad(type, place, alignment);
    } else {
      auto* no_lane = llvm::Constant::getNullValue(mask->getType());
      loaded = at.CreateMaskedLoad(type, place, alignment,
                                   at.CreateShuffleVector(mask, no_lane, wanted), none);
    }
    result = at.CreateShuffleVector(result, loaded, order);
  }
  return result;
}

llvm::Align element_alignment(DType dtype) { return llvm::Align(ir::size_of(dtype)); }

}  // namespace

llvm::Value* widen(KernelBuilder& kernel, DType dtype, llvm::Value* stored) {
  auto& at = kernel.here();
  if (dtype == DType::Bool)
    return at.CreateICmpNE(stored, llvm::Constant::getNullValue(stored->getType()));
  if (dtype == DType::BF16) {
    auto* wide = at.CreateZExt(stored, like(stored, at.getInt32Ty()));
    return at.CreateBitCast(at.CreateShl(wide, 16), like(stored, at.getFloatTy()));
  }
  if (dtype == DType::F16) {
    if (kernel.target().level == Level::Baseline) return half_to_float(at, stored);
    auto* wide = at.CreateFPExt(at.CreateBitCast(stored, like(stored, at.getHalfTy())),
                                like(stored, at.getFloatTy()));
    // LLVM would compare and round halves as halves, which it does lane by lane.
    return at.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {wide->getType()}, {wide});
  }
  return stored;
}

llvm::Value* narrow(KernelBuilder& kernel, DType dtype, llvm::Value* value) {
  auto& at = kernel.here();
  if (dtype == DType::Bool) return at.CreateZExt(value, like(value, at.getInt8Ty()));
  if (dtype == DType::BF16) {
    if (llvm::Value* stored = bfloat16_widened(value)) return stored;
    // Not by the processor's conversion, which takes denormals for zero.
    return float_to_bfloat16(at, value);
  }
  if (dtype == DType::F16) {
    if (kernel.target().level == Level::Baseline) return float_to_half(at, value);
    return narrow_to_half(kernel, value);
  }
  return value;
}

namespace {

// Without a branch, which would stand between what is loaded and what is computed of it: values of
// many loads would all wait for the last of them.
llvm::Value* either(KernelBuilder& kernel, llvm::IRBuilder<>& at, llvm::Value* condition,
                    llvm::Value* pointer, llvm::Value* other) {
  llvm::Value* chosen = at.CreateSelect(condition, pointer, other);
  if (auto* select = llvm::dyn_cast<llvm::SelectInst>(chosen))
    select->setMetadata(llvm::LLVMContext::MD_unpredictable,
                        llvm::MDNode::get(kernel.context(), {}));
  return chosen;
}

}  // namespace

llvm::Value* load_elements(KernelBuilder& kernel, Scope& scope, llvm::Value* base, DType dtype,
                           const ir::Dim& offset, llvm::Value* mask, bool constant_memory) {
  auto* element = kernel.storage_type(dtype);
  const llvm::Align alignment = element_alignment(dtype);
  const auto finish = [&](llvm::Value* loaded) {
    if (constant_memory) {
      if (auto* instruction = llvm::dyn_cast<llvm::LoadInst>(loaded)) {
        instruction->setMetadata(llvm::LLVMContext::MD_invariant_load,
                                 llvm::MDNode::get(kernel.context(), {}));
      }
    }
    return widen(kernel, dtype, loaded);
  };
  const unsigned width = scope.lanes().width;
  const bool vector =
      differs_between_lanes(scope, offset) || (mask != nullptr && mask->getType()->isVectorTy());
  if (!vector) {
    llvm::Value* pointer = emit_pointer(kernel, scope, base, dtype, offset);
    auto& at = kernel.at(scope);
    if (mask == nullptr) return finish(at.CreateAlignedLoad(element, pointer, alignment));
    // Where the condition fails the address may be anywhere.
    pointer = either(kernel, at, mask, pointer, kernel.zeros(element));
    return widen(kernel, dtype, at.CreateAlignedLoad(element, pointer, alignment));
  }
  auto* type = llvm::FixedVectorType::get(element, width);
  const auto stride = lane_stride(scope, offset, kernel.symbols());
  if (mask != nullptr && !mask->getType()->isVectorTy() && stride && stride->is_constant(1)) {
    // Lanes that are masked off all at once at an address that may be anywhere are slow to read.
    llvm::Value* pointer = emit_pointer(kernel, scope, base, dtype, offset);
    auto& at = kernel.at(scope);
    pointer = either(kernel, at, mask, pointer, kernel.zeros(type));
    llvm::Value* exist = scope.lanes().mask;
    return widen(kernel, dtype,
                 exist == nullptr ? at.CreateAlignedLoad(type, pointer, alignment)
                                  : load_masked(kernel, type, pointer, alignment, exist));
  }
  mask = both(kernel, scope, mask, scope.lanes().mask);
  if (stride && stride->is_constant(1)) {
    llvm::Value* pointer = emit_pointer(kernel, scope, base, dtype, offset);
    auto& at = kernel.at(scope);
    if (mask == nullptr) return finish(at.CreateAlignedLoad(type, pointer, alignment));
    return finish(load_masked(kernel, type, pointer, alignment, kernel.splat(mask, width)));
  }
  if (stride && kernel.target().level != Level::Baseline &&
      (mask == nullptr || masks_in_line(kernel, type))) {
    const std::int64_t step = stride->constant().value_or(0),
                       most = std::min<std::int64_t>(most_interleaved, width);
    if (step != 0 && -most <= step && step <= most) {
      // Backwards from the last lane's element on.
      const bool reversed = step < 0;
      llvm::Value* pointer =
          emit_pointer(kernel, scope, base, dtype,
                       reversed ? offset + step * (width - std::int64_t{1}) : offset);
      auto& at = kernel.at(scope);
      mask = mask ? kernel.splat(mask, width) : nullptr;
      if (reversed && mask != nullptr) mask = at.CreateVectorReverse(mask);
      llvm::Value* loaded =
          load_every(kernel, element, pointer, width,
                     static_cast<unsigned>(reversed ? -step : step), alignment, mask);
      return finish(reversed ? at.CreateVectorReverse(loaded) : loaded);
    }
  }
  const LanePlaces places = lane_places(kernel, scope, base, dtype, offset);
  auto& at = kernel.at(scope);
  llvm::Value* all =
      llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(at.getInt1Ty(), width));
  llvm::Value* lanes = mask ? kernel.splat(mask, width) : all;
  const bool narrow = ir::size_of(dtype) < 4;
  if (narrow && kernel.target().level != Level::Baseline)
    return finish(gather_from_words(kernel, element, places, lanes));
  llvm::Value* pointers = kernel.element_pointer(places.first, dtype, places.offsets);
  // Without such an instruction LLVM would branch for each lane of each masked load, and compile
  // thousands of blocks for seconds.
  if (mask != nullptr && narrow) {
    pointers = at.CreateSelect(lanes, pointers, at.CreateVectorSplat(width, kernel.zeros(element)));
    lanes = all;
  }
  return finish(
      at.CreateMaskedGather(type, pointers, alignment, lanes, llvm::Constant::getNullValue(type)));
}

void store_elements(KernelBuilder& kernel, Scope& scope, llvm::Value* base, DType dtype,
                    const ir::Dim& offset, llvm::Value* value) {
  const llvm::Align alignment = element_alignment(dtype);
  const unsigned width = scope.lanes().width;
  if (!differs_between_lanes(scope, offset) && !value->getType()->isVectorTy()) {
    llvm::Value* pointer = emit_pointer(kernel, scope, base, dtype, offset);
    auto& at = kernel.at(scope);
    at.CreateAlignedStore(narrow(kernel, dtype, value), pointer, alignment);
    return;
  }
  llvm::Value* mask = scope.lanes().mask;
  const auto stride = lane_stride(scope, offset, kernel.symbols());
  if (stride && stride->is_constant(1)) {
    llvm::Value* pointer = emit_pointer(kernel, scope, base, dtype, offset);
    auto& at = kernel.at(scope);
    llvm::Value* stored = narrow(kernel, dtype, kernel.splat(value, width));
    if (mask == nullptr) at.CreateAlignedStore(stored, pointer, alignment);
    else at.CreateMaskedStore(stored, pointer, alignment, mask);
    return;
  }
  const LanePlaces places = lane_places(kernel, scope, base, dtype, offset);
  llvm::Value* pointers = kernel.element_pointer(places.first, dtype, places.offsets);
  auto& at = kernel.at(scope);
  llvm::Value* lanes =
      mask ? mask
           : llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(at.getInt1Ty(), width));
  at.CreateMaskedScatter(narrow(kernel, dtype, kernel.splat(value, width)), pointers, alignment,
                         lanes);
}

}  // namespace anydim::codegen_cpu
