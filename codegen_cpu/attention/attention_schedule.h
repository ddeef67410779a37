// The schedules of attention, as a struct.
#pragma once

#include <cstdint>

#include "ir/schedule.h"

namespace anydim::codegen_cpu {

// `attention rows=8 columns=32 block_rows=64 block_keys=128`
//
// A task computes at most block_rows queries of one batch point. It takes the keys in blocks: a
// block of keys and values is packed once, then every `rows` queries pass over it with
// micro-kernels of rows x columns, keeping a running maximum and sum.
struct AttentionSchedule {
  std::int64_t rows = 1;
  std::int64_t columns = 16;
  std::int64_t block_rows = 64;
  std::int64_t block_keys = 64;  // a multiple of columns

  // internal error where a field is missing
  static AttentionSchedule from(const ir::Schedule& schedule);
  ir::Schedule schedule() const;
};

}  // namespace anydim::codegen_cpu
