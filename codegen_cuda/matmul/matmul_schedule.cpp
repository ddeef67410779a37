#include "codegen_cuda/matmul/matmul_schedule.h"

#include <algorithm>

namespace anydim::codegen_cuda {

std::int64_t piece_of(std::int64_t columns) {
  for (const std::int64_t piece : {64, 48, 32}) {
    if (columns % piece == 0) return piece;
  }
  return 16;
}

MmaSchedule MmaSchedule::from(const ir::Schedule& schedule) {
  return {.tf32 = schedule.name == "matmul_tf32",
          .block_rows = schedule.field("bm"),
          .block_columns = schedule.field("bn"),
          .block_depth = schedule.field("bk"),
          .stages = schedule.field("stages"),
          .warps_down = schedule.field("down"),
          .warps_across = schedule.field("across"),
          .group = schedule.field("group"),
          .whole_rows = schedule.field("whole") == 1,
          .cluster_rows = schedule.field("whole") == 2,
          .split = schedule.field("split")};
}

ir::Schedule MmaSchedule::schedule() const {
  return {.name = tf32 ? "matmul_tf32" : "matmul_mma",
          .fields = {{"bm", block_rows},
                     {"bn", block_columns},
                     {"bk", block_depth},
                     {"stages", stages},
                     {"down", warps_down},
                     {"across", warps_across},
                     {"group", group},
                     {"whole", cluster_rows ? 2
                               : whole_rows ? 1
                                            : 0},
                     {"split", split}}};
}

std::int64_t MmaSchedule::piece_columns() const { return piece_of(warp_columns()); }

std::int64_t MmaSchedule::piece_bytes() const {
  constexpr std::int64_t piece_rows = 16, gap = 8;  // matmul_mma.cuh: columns between rows, so that
                                                    // fragments are written without conflicts
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

WgmmaSchedule WgmmaSchedule::from(const ir::Schedule& schedule) {
  return {.block_rows = schedule.field("bm"),
          .block_columns = schedule.field("bn"),
          .stages = schedule.field("stages"),
          .blocks = schedule.field("blocks"),
          .group = schedule.field("group"),
          .swap_ab = schedule.field("swap_ab") != 0,
          .persistent = schedule.field("persistent") != 0,
          .split = schedule.field("split"),
          .multicast = schedule.find("multicast").value_or(1),
          .beside = schedule.find("beside").value_or(1),
          .tma_store = schedule.find("tma_store").value_or(0),
          .cluster_rows = schedule.find("whole").value_or(0) == 2};
}

ir::Schedule WgmmaSchedule::schedule() const {
  ir::Schedule written{.name = "matmul_wgmma",
                       .fields = {{"bm", block_rows},
                                  {"bn", block_columns},
                                  {"stages", stages},
                                  {"blocks", blocks},
                                  {"group", group},
                                  {"swap_ab", swap_ab ? 1 : 0},
                                  {"persistent", persistent ? 1 : 0},
                                  {"split", split}}};
  if (multicast > 1) written.fields.emplace_back("multicast", multicast);
  if (beside > 1) written.fields.emplace_back("beside", beside);
  if (tma_store != 0) written.fields.emplace_back("tma_store", tma_store);
  if (cluster_rows) written.fields.emplace_back("whole", 2);
  return written;
}

std::int64_t WgmmaSchedule::piece_columns() const { return piece_of(block_columns); }

std::int64_t WgmmaSchedule::pieces_bytes() const {
  constexpr std::int64_t piece_rows = 16, gap = 8;
  return 4 * consumer_warpgroups() * piece_rows * (piece_columns() + gap) * 4;
}

std::int64_t WgmmaSchedule::pieces_offset() const {
  constexpr std::int64_t barrier_bytes = 8, alignment = 16;
  return stages * stage_bytes() +
         (2 * stages * barrier_bytes + alignment - 1) / alignment * alignment;
}

std::int64_t WgmmaSchedule::boxes_offset() const {
  constexpr std::int64_t alignment = 128;  // of tensor memory access
  return (pieces_offset() + pieces_bytes() + alignment - 1) / alignment * alignment;
}

std::int64_t WgmmaSchedule::shared_bytes() const {
  if (tma_store == 0) return pieces_offset() + pieces_bytes();
  return boxes_offset() + 4 * consumer_warpgroups() * box_elements() * tma_store;
}

std::int64_t WgmmaSchedule::registers_needed() const {
  constexpr std::int64_t rest = 64;  // addresses, descriptors, the epilogue
  return block_columns / 2 + rest;
}

WgmmaSchedule::Registers WgmmaSchedule::registers(std::int64_t per_multiprocessor) const {
  const auto down = [](std::int64_t count) { return count / 8 * 8; };
  const std::int64_t groups = consumer_warpgroups() + 1;
  Registers result;
  result.launch = std::min<std::int64_t>(248, down(per_multiprocessor / (threads() * blocks)));
  if (registers_needed() <= result.launch) return result;
  result.producer = blocks == 1 ? 40 : 24;
  result.consumer = std::min<std::int64_t>(
      240, down((result.launch * groups - result.producer) / consumer_warpgroups()));
  return result;
}

}  // namespace anydim::codegen_cuda
