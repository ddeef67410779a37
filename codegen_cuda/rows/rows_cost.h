// Schedules of rows as a struct, and what they cost.
#pragma once

#include <cstdint>
#include <span>

#include "codegen_cuda/work.h"

namespace anydim::codegen_cuda {

// Fields of `rows` (rows_kind.cpp).
struct RowFields {
  std::int64_t threads, across, vector, items, split;
};
RowFields fields_of(const ir::Schedule& schedule);

inline constexpr int rows_of_block = 4;  // warps of a block where each has a row
inline constexpr std::int64_t longest_of_warp = 1024;

// Blocks of a multiprocessor that stride over the rows, at most.
std::int64_t most_blocks(const RowFields& fields);

// Values that a thread keeps in registers.
std::int64_t kept_values(const PlanInputs& inputs, const RowFields& fields);

// One launch over the rows at these values of the region's keys.
StreamingWork rows_work(const PlanInputs& inputs, const RowFields& fields,
                        std::span<const std::int64_t> keys);

}  // namespace anydim::codegen_cuda
