#include "codegen_cuda/matmul_schedule.h"

namespace anydim::codegen_cuda {

std::int64_t piece_of(std::int64_t columns) {
  for (const std::int64_t piece : {64, 48, 32}) {
    if (columns % piece == 0) return piece;
  }
  return 16;
}

MmaSchedule MmaSchedule::from(const ir::Schedule& schedule) {
  return {.block_rows = schedule.field("bm"),
          .block_columns = schedule.field("bn"),
          .block_depth = schedule.field("bk"),
          .stages = schedule.field("stages"),
          .warps_down = schedule.field("down"),
          .warps_across = schedule.field("across"),
          .group = schedule.field("group"),
          .whole_rows = schedule.field("whole") != 0};
}

ir::Schedule MmaSchedule::schedule() const {
  return {.name = "matmul_mma",
          .fields = {{"bm", block_rows},
                     {"bn", block_columns},
                     {"bk", block_depth},
                     {"stages", stages},
                     {"down", warps_down},
                     {"across", warps_across},
                     {"group", group},
                     {"whole", whole_rows ? 1 : 0}}};
}

std::int64_t MmaSchedule::piece_columns() const { return piece_of(warp_columns()); }

std::int64_t MmaSchedule::piece_bytes() const {
  constexpr std::int64_t piece_rows = 16, gap = 8;  // matmul_mma.cuh: columns between rows, so that fragments are written without conflicts
  return warps_down * warps_across * piece_rows * (piece_columns() + gap) * 4;
}

SimtSchedule SimtSchedule::from(const ir::Schedule& schedule) {
  return {.block_rows = schedule.field("bm"),
          .block_columns = schedule.field("bn"),
          .block_depth = schedule.field("bk"),
          .thread_rows = schedule.field("tm"),
          .thread_columns = schedule.field("tn"),
          .group = schedule.field("group"),
          .whole_rows = schedule.field("whole") != 0};
}

ir::Schedule SimtSchedule::schedule() const {
  return {.name = "matmul_simt",
          .fields = {{"bm", block_rows},
                     {"bn", block_columns},
                     {"bk", block_depth},
                     {"tm", thread_rows},
                     {"tn", thread_columns},
                     {"group", group},
                     {"whole", whole_rows ? 1 : 0}}};
}

}  // namespace anydim::codegen_cuda
