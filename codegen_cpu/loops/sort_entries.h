// What a sort moves about: the numbers of items, with their keys where these are computed once.
#pragma once

#include <array>
#include <cstdint>

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/scratch_layout.h"

namespace anydim::codegen_cpu {

// One entry or a vector of them in registers, word by word.
using SortEntry = std::array<llvm::Value*, 2>;
// Where entries lie in memory: word by word too, an array of i64 each.
using SortArray = std::array<llvm::Value*, 2>;

// A key is held as a signed integer that has its order, its image: NaN, whatever its bits, is the
// largest, -0 is 0, and what is sorted falling has all bits flipped. So entries are compared as
// integers, without a look at what they stand for, and no two of them are equal.
class SortEntries {
 public:
  enum class Kind : std::uint8_t {
    Packed,  // one word: the image, 32 bits, above the number
    Pair,    // the image, then the number
    Number,  // the number alone; whoever sorts knows how to compare
  };
  SortEntries(KernelBuilder& kernel, Kind kind) : kernel_(kernel), kind_(kind) {}
  // The kind for keys of `dtype` that `items` at most have.
  static Kind kind_for(ir::DType dtype, std::int64_t items);

  std::size_t words() const { return kind_ == Kind::Pair ? 2 : 1; }
  SortArray reserve(ScratchLayout& scratch, const ir::Dim& entries) const;
  // The array from entry `position` on.
  SortArray from(Scope& scope, const SortArray& array, llvm::Value* position) const;

  // The image of keys (value_type of `dtype`), i32 or i64; at the end of `scope`.
  llvm::Value* image(Scope& scope, llvm::Value* key, ir::DType dtype, bool descending) const;
  // An entry of images and numbers (i64), as many of both.
  SortEntry entry(Scope& scope, llvm::Value* image, llvm::Value* number) const;
  // `width` times what lies behind every entry.
  SortEntry behind_all(unsigned width) const;
  // As image() gives it for keys of `dtype`; of one entry.
  llvm::Value* image_of(Scope& scope, const SortEntry& entry, ir::DType dtype) const;
  llvm::Value* number_of(Scope& scope, const SortEntry& entry) const;

  SortEntry load(Scope& scope, const SortArray& array, llvm::Value* position, unsigned width) const;
  void store(Scope& scope, const SortArray& array, llvm::Value* position,
             const SortEntry& entry) const;

  // Whether `a` is in front of `b`, for each lane. Not where entries are numbers alone.
  llvm::Value* before(Scope& scope, const SortEntry& a, const SortEntry& b) const;
  SortEntry select(Scope& scope, llvm::Value* condition, const SortEntry& a,
                   const SortEntry& b) const;
  SortEntry shuffled(Scope& scope, const SortEntry& entry, llvm::ArrayRef<int> lanes) const;

 private:
  template <typename Make>
  SortEntry each_word(const Make& make) const {
    SortEntry made{};
    for (std::size_t word = 0; word < words(); ++word) made[word] = make(word);
    return made;
  }

  KernelBuilder& kernel_;
  Kind kind_;
};

}  // namespace anydim::codegen_cpu
