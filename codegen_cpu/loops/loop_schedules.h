// Schedules of the kinds that go over points: maps, ordered forms and sorts.
#pragma once

#include <cstdint>
#include <tuple>

#include "ir/schedule_fields.h"

namespace anydim::codegen_cpu {

// `map vector=LANES unroll=VECTORS grain=ELEMENTS [tile=1]`
struct MapSchedule {
  std::int64_t vector = 1;
  std::int64_t unroll = 1;
  std::int64_t grain = 1;  // elements of one task
  bool tile = false;       // parts that read across do so in square tiles

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"vector", &MapSchedule::vector},
                      ir::ScheduleField{"unroll", &MapSchedule::unroll},
                      ir::ScheduleField{"grain", &MapSchedule::grain},
                      ir::ScheduleField{"tile", &MapSchedule::tile, 0}};
  }
  static MapSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<MapSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("map", *this); }
};

// `ordered vector=LANES unroll=VECTORS grain=POINTS`. Points of a row come one after the other:
// lanes are rows, the vectors of one turn are gone through together.
struct OrderedSchedule {
  std::int64_t vector = 1;
  std::int64_t unroll = 1;
  std::int64_t grain = 1;  // points of one task

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"vector", &OrderedSchedule::vector},
                      ir::ScheduleField{"unroll", &OrderedSchedule::unroll},
                      ir::ScheduleField{"grain", &OrderedSchedule::grain}};
  }
  static OrderedSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<OrderedSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("ordered", *this); }
};

// `sort grain=ITEMS`
struct SortSchedule {
  std::int64_t grain = 256;  // items of one task

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"grain", &SortSchedule::grain}};
  }
  static SortSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<SortSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("sort", *this); }
};

}  // namespace anydim::codegen_cpu
