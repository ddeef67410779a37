// The schedules of attention, as a struct.
#pragma once

#include <cstdint>

#include "ir/schedule_fields.h"

namespace anydim::codegen_cpu {

// `attention rows=8 columns=32 block_rows=64 block_keys=128`, on tile registers with `tiles=1` at
// the end
//
// A task computes at most block_rows queries of one batch point. It takes the keys in blocks: a
// block of keys and values is packed once, then every `rows` queries pass over it with
// micro-kernels of rows x columns, keeping a running maximum and sum.
struct AttentionSchedule {
  std::int64_t rows = 1;
  std::int64_t columns = 16;
  std::int64_t block_rows = 64;
  std::int64_t block_keys = 64;  // a multiple of columns
  // Keys are not packed: each is multiplied with the queries where it lies (key_dots.h), of forms
  // that have whole_keys().
  bool keys_in_place = false;
  // The micro-kernels work on tile registers: rows are 16 or 32, columns panels, up to four tiles
  // of results in all, and blocks of keys whole tiles of them.
  bool tiles = false;

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"rows", &AttentionSchedule::rows},
                      ir::ScheduleField{"columns", &AttentionSchedule::columns},
                      ir::ScheduleField{"block_rows", &AttentionSchedule::block_rows},
                      ir::ScheduleField{"block_keys", &AttentionSchedule::block_keys},
                      ir::ScheduleField{"keys_in_place", &AttentionSchedule::keys_in_place, 0},
                      ir::ScheduleField{"tiles", &AttentionSchedule::tiles, 0}};
  }
  static AttentionSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<AttentionSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("attention", *this); }
};

}  // namespace anydim::codegen_cpu
