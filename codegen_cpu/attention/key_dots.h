// Scores of few queries: dot products with keys where these lie. Packing a key costs about as much
// as multiplying it with five queries.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/matmul/matmul_operands.h"

namespace anydim::codegen_cpu {

// The keys of a form that computes in `compute` (compute_dtype), where each is whole vectors that
// lie beside each other; else nothing. `form.k` ends in any dtype.
std::optional<RowsInPlace> whole_keys(const Target& target, const ir::Region& region,
                                      const ir::AttentionForm& form,
                                      const ir::SymbolTable& symbols);

struct KeyDots {
  RowsInPlace keys;
  ir::DType dtype{};
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
