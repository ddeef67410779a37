#include "codegen_cuda/matmul/matmul_schedule.h"

#include <algorithm>

namespace anydim::codegen_cuda {

std::int64_t piece_of(std::int64_t columns) {
  for (const std::int64_t piece : {64, 48, 32}) {
    if (columns % piece == 0) return piece;
  }
  return 16;
}

PieceLayout piece_layout(std::int64_t rows, std::int64_t columns, bool transposed) {
  const std::int64_t pitch = transposed ? rows + 4 : columns + 8;
  return {.pitch = pitch, .elements = (transposed ? columns : rows) * pitch};
}

MmaSchedule MmaSchedule::from(const ir::Schedule& schedule) {
  auto result = ir::read_fields<MmaSchedule>(schedule);
  result.tf32 = schedule.name == "matmul_tf32";
  return result;
}

ir::Schedule MmaSchedule::schedule() const {
  return ir::write_fields(tf32 ? "matmul_tf32" : "matmul_mma", *this);
}

std::int64_t MmaSchedule::piece_columns() const { return piece_of(warp_columns()); }

PieceLayout MmaSchedule::piece() const { return piece_layout(16, piece_columns(), false); }

std::int64_t MmaSchedule::piece_bytes() const {
  return warps_down * warps_across * piece().elements * 4;
}

std::int64_t MmaSchedule::shared_bytes() const {
  return std::max(stages * stage_bytes(), piece_bytes());
}

std::int64_t WgmmaSchedule::piece_columns() const { return piece_of(block_columns); }

PieceLayout WgmmaSchedule::piece() const { return piece_layout(16, piece_columns(), swap_ab); }

PieceLayout WgmmaSchedule::joined() const {
  return piece_layout(block_rows, block_columns, swap_ab);
}

std::int64_t WgmmaSchedule::joined_bytes() const { return split == 1 ? 0 : joined().elements * 4; }

std::int64_t WgmmaSchedule::pieces_bytes() const {
  if (split > 1 || fragments) return 0;
  return 4 * consumer_warpgroups() * piece().elements * 4;
}

std::int64_t WgmmaSchedule::pieces_offset() const {
  constexpr std::int64_t barrier_bytes = 8, alignment = 16;
  return stages * stage_bytes() +
         (2 * (stages + (pingpong || split > 1 ? 1 : 0)) * barrier_bytes + alignment - 1) /
             alignment * alignment;
}

std::int64_t WgmmaSchedule::box_bytes() const {
  return fragments ? fragment_bytes : 16 * piece_columns() * tma_store;
}

std::int64_t WgmmaSchedule::box_alignment() const {
  return fragments ? swizzled_box_alignment : 128;  // of tensor memory access
}

std::int64_t WgmmaSchedule::boxes_offset() const {
  const std::int64_t alignment = box_alignment();
  return (pieces_offset() + pieces_bytes() + alignment - 1) / alignment * alignment;
}

std::int64_t WgmmaSchedule::shared_bytes() const {
  if (tma_store == 0) return pieces_offset() + pieces_bytes();
  return boxes_offset() + 4 * consumer_warpgroups() * box_bytes();
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
