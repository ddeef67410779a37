// The micro-kernels of attention's two products.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "codegen_cpu/attention/attention_schedule.h"
#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/matmul/product.h"

namespace anydim::codegen_cpu {

struct AttentionProducts {
  const AttentionSchedule& schedule;
  Product product{};
  llvm::Type* element = nullptr;  // of scores and sums
  std::int64_t lanes = 0, panel = 0;
  std::set<std::int64_t> row_counts;  // of a block of rows
  // Constants where known: elements between queries; steps of a key's depth, as panels have them.
  std::optional<std::int64_t> query_stride, depth_steps;
  bool narrow_values = false;  // the values' columns may leave a group that is not full
  // Values are read in place, rows so many elements apart where that is known.
  bool values_in_place = false;
  std::optional<std::int64_t> value_stride;
};

// Functions as emit_multiply (codegen_cpu/matmul/micro_kernel.h) makes them, of widths
// schedule.columns and a panel: rows of queries by keys to scores, schedule.block_keys elements
// from row to row; and weights, so far from row to row too, by values to a tile of its own width.
// None for keys that are read in place.
struct AttentionMultiplies {
  llvm::Function *keys = nullptr, *values = nullptr;
};
AttentionMultiplies emit_attention_multiplies(llvm::Module& module, const Target& target,
                                              const AttentionProducts& products);

}  // namespace anydim::codegen_cpu
