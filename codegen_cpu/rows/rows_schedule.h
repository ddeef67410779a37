// `rows vector=LANES unroll=VECTORS grain=ELEMENTS across=0|1 [together=ROWS]`
#pragma once

#include <cstdint>
#include <tuple>

#include "ir/schedule_fields.h"

namespace anydim::codegen_cpu {

struct RowsSchedule {
  std::int64_t vector = 1;
  std::int64_t unroll = 1;
  std::int64_t grain = 1;  // of one task: elements, with `across` rows
  // Lanes run along the last outer iteration, every lane a row of its own, rather than along a row.
  bool across = false;
  // Rows that are computed at once. With `across`, windows that overlap (shared_window.h) at so
  // many points of the last outer iteration but one, and `grain` counts those points.
  std::int64_t together = 1;

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"vector", &RowsSchedule::vector},
                      ir::ScheduleField{"unroll", &RowsSchedule::unroll},
                      ir::ScheduleField{"grain", &RowsSchedule::grain},
                      ir::ScheduleField{"across", &RowsSchedule::across},
                      ir::ScheduleField{"together", &RowsSchedule::together, 1}};
  }
  static RowsSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<RowsSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("rows", *this); }
};

}  // namespace anydim::codegen_cpu
