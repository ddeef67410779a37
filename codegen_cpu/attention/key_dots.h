// Scores of few queries: dot products with keys where these lie. Packing a key costs about as much
// as multiplying it with five queries.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/matmul/matmul_operands.h"

namespace anydim::codegen_cpu {

struct WholeKeys {
  RowsInPlace rows;
  ir::DType dtype{};  // of their elements: the form's compute dtype, or 16 bits that widen to it
};
// The keys of a form, where each is whole vectors that lie beside each other; else nothing.
// `form.k` ends in any dtype. Keys that are to be rounded to 16 bits, for products of pairs, are
// taken as they lie: rounding would cost more than it saves, and gains no precision.
std::optional<WholeKeys> whole_keys(const Target& target, const ir::Region& region,
                                    const ir::AttentionForm& form, const ir::SymbolTable& symbols);

struct KeyDots {
  WholeKeys keys;
  ir::DType dtype{};  // of queries and scores
  ir::DimLeaf key;
  std::int64_t depth = 0;                                                    // elements of a key
  llvm::Value *queries = nullptr, *query_stride = nullptr, *rows = nullptr;  // at least one
  llvm::Value *first_key = nullptr, *count = nullptr;                        // at least one
  llvm::Value* scores = nullptr;  // of row r and key first_key + j: element r * score_stride + j
  std::int64_t score_stride = 0;
};
// Scores of whole vectors of keys are written: those behind the last are any key's.
void emit_key_dots(KernelBuilder& kernel, Scope& scope, const KeyDots& dots);

}  // namespace anydim::codegen_cpu
