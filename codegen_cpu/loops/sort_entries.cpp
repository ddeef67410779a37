#include "codegen_cpu/loops/sort_entries.h"

#include <limits>

namespace anydim::codegen_cpu {

namespace {

constexpr std::uint64_t number_bits = 32;  // of a packed entry

unsigned image_bits(DType dtype) { return ir::size_of(dtype) == 8 ? 64 : 32; }

llvm::Type* like(llvm::Value* value, llvm::Type* scalar) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? llvm::FixedVectorType::get(scalar, vector->getNumElements()) : scalar;
}

llvm::Value* integer(llvm::Value* like, const llvm::APInt& value) {
  return llvm::ConstantInt::get(like->getType(), value);
}

}  // namespace

SortEntries::Kind SortEntries::kind_for(DType dtype, std::int64_t items) {
  return image_bits(dtype) == 32 && items < std::int64_t{1} << number_bits ? Kind::Packed
                                                                           : Kind::Pair;
}

SortArray SortEntries::reserve(ScratchLayout& scratch, const ir::Dim& entries) const {
  return each_word([&](std::size_t) {
    return scratch.reserve(kernel_, entries * static_cast<std::int64_t>(ir::size_of(DType::I64)));
  });
}

SortArray SortEntries::from(Scope& scope, const SortArray& array, llvm::Value* position) const {
  kernel_.at(scope);
  return each_word(
      [&](std::size_t word) { return kernel_.element_pointer(array[word], DType::I64, position); });
}

llvm::Value* SortEntries::image(Scope& scope, llvm::Value* key, DType dtype,
                                bool descending) const {
  auto& at = kernel_.at(scope);
  llvm::Value* image = nullptr;
  const unsigned bits = image_bits(dtype);
  llvm::Type* type = like(key, at.getIntNTy(bits));
  if (!ir::is_float(dtype)) {
    const bool is_signed = ir::is_signed(dtype);
    image = is_signed ? at.CreateSExt(key, type) : at.CreateZExt(key, type);
    const bool fills = !is_signed && ir::size_of(dtype) * 8 == bits;
    if (fills) image = at.CreateXor(image, integer(image, llvm::APInt::getSignMask(bits)));
  } else {
    llvm::Value* pattern = at.CreateBitCast(key, type);
    const auto constant = [&](const llvm::APInt& value) { return integer(pattern, value); };
    llvm::Value* minus_zero = at.CreateICmpEQ(pattern, constant(llvm::APInt::getSignMask(bits)));
    pattern = at.CreateSelect(minus_zero, constant(llvm::APInt(bits, 0)), pattern);
    // Below 0 the larger pattern is the smaller number.
    llvm::Value* negative = at.CreateAShr(pattern, constant(llvm::APInt(bits, bits - 1)));
    llvm::Value* number = at.CreateXor(
        pattern, at.CreateAnd(negative, constant(llvm::APInt::getSignedMaxValue(bits))));
    image = at.CreateSelect(at.CreateFCmpUNO(key, key),
                            constant(llvm::APInt::getSignedMaxValue(bits)), number);
  }
  return descending ? at.CreateNot(image) : image;
}

SortEntry SortEntries::entry(Scope& scope, llvm::Value* image, llvm::Value* number) const {
  auto& at = kernel_.at(scope);
  llvm::Value* wide = at.CreateSExt(image, number->getType());
  if (kind_ == Kind::Pair) return {wide, number};
  return {at.CreateOr(at.CreateShl(wide, number_bits), number), nullptr};
}

SortEntry SortEntries::behind_all(unsigned width) const {
  llvm::Value* largest =
      kernel_.splat(kernel_.constant(std::numeric_limits<std::int64_t>::max()), width);
  return each_word([&](std::size_t) { return largest; });
}

llvm::Value* SortEntries::image_of(Scope& scope, const SortEntry& entry, DType dtype) const {
  auto& at = kernel_.at(scope);
  llvm::Value* wide = kind_ == Kind::Packed ? at.CreateAShr(entry[0], number_bits) : entry[0];
  return at.CreateTrunc(wide, at.getIntNTy(image_bits(dtype)));
}

llvm::Value* SortEntries::number_of(Scope& scope, const SortEntry& entry) const {
  if (kind_ != Kind::Packed) return entry[words() - 1];
  return kernel_.at(scope).CreateAnd(
      entry[0], integer(entry[0], llvm::APInt::getLowBitsSet(64, number_bits)));
}

SortEntry SortEntries::load(Scope& scope, const SortArray& array, llvm::Value* position,
                            unsigned width) const {
  auto& at = kernel_.at(scope);
  return each_word([&](std::size_t word) {
    return at.CreateAlignedLoad(kernel_.vector_of(at.getInt64Ty(), width),
                                kernel_.element_pointer(array[word], DType::I64, position),
                                llvm::Align(8));
  });
}

void SortEntries::store(Scope& scope, const SortArray& array, llvm::Value* position,
                        const SortEntry& entry) const {
  auto& at = kernel_.at(scope);
  for (std::size_t word = 0; word < words(); ++word)
    at.CreateAlignedStore(entry[word], kernel_.element_pointer(array[word], DType::I64, position),
                          llvm::Align(8));
}

llvm::Value* SortEntries::before(Scope& scope, const SortEntry& a, const SortEntry& b) const {
  auto& at = kernel_.at(scope);
  llvm::Value* less = at.CreateICmpSLT(a[0], b[0]);
  if (kind_ != Kind::Pair) return less;
  return at.CreateOr(less, at.CreateAnd(at.CreateICmpEQ(a[0], b[0]), at.CreateICmpSLT(a[1], b[1])));
}

SortEntry SortEntries::select(Scope& scope, llvm::Value* condition, const SortEntry& a,
                              const SortEntry& b) const {
  auto& at = kernel_.at(scope);
  return each_word([&](std::size_t word) { return at.CreateSelect(condition, a[word], b[word]); });
}

SortEntry SortEntries::shuffled(Scope& scope, const SortEntry& entry,
                                llvm::ArrayRef<int> lanes) const {
  auto& at = kernel_.at(scope);
  return each_word([&](std::size_t word) { return at.CreateShuffleVector(entry[word], lanes); });
}

}  // namespace anydim::codegen_cpu
