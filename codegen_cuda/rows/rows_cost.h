// Schedules of rows as a struct, and what they cost.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>

#include "codegen_cuda/work.h"
#include "ir/schedule_fields.h"

namespace anydim::codegen_cuda {

// `rows threads=THREADS across=0|1 vector=ELEMENTS items=VECTORS split=BLOCKS`
struct RowsSchedule {
  std::int64_t threads;  // of one row; 32 make several rows a block
  std::int64_t across;   // 1: 32 neighbouring rows lie side by side in a block, `threads` of a row
  std::int64_t vector;
  // vectors a thread holds in registers (0: any length, each stage reads its elements again)
  std::int64_t items;
  std::int64_t split;  // blocks that share a row, whose parts a second launch puts together

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"threads", &RowsSchedule::threads},
                      ir::ScheduleField{"across", &RowsSchedule::across},
                      ir::ScheduleField{"vector", &RowsSchedule::vector},
                      ir::ScheduleField{"items", &RowsSchedule::items},
                      ir::ScheduleField{"split", &RowsSchedule::split}};
  }
  static RowsSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<RowsSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("rows", *this); }
};

inline constexpr int rows_of_block = 4;  // warps of a block where each has a row
inline constexpr std::int64_t longest_of_warp = 1024;

// Blocks of a multiprocessor that stride over the rows, at most.
std::int64_t most_blocks(const RowsSchedule& fields);

// Values that a thread keeps in registers.
std::int64_t kept_values(const PlanInputs& inputs, const RowsSchedule& fields);

// One launch over the rows at these values of the region's keys.
StreamingWork rows_work(const PlanInputs& inputs, const RowsSchedule& fields,
                        std::span<const std::int64_t> keys);

}  // namespace anydim::codegen_cuda
