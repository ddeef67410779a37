// The schedules of a matmul, as structs.
#pragma once

#include <cstdint>

#include "ir/schedule_fields.h"

namespace anydim::codegen_cuda {

// How a piece of sums lies in shared memory, in f32 elements: its rows, or where `transposed` its
// columns, one after the other, so far apart that fragments are written without bank conflicts
// (device/matmul_tiles.cuh) and each begins at a multiple of 16 bytes.
struct PieceLayout {
  std::int64_t pitch = 0, elements = 0;
};
PieceLayout piece_layout(std::int64_t rows, std::int64_t columns, bool transposed);

// `matmul_mma bm=128 bn=128 bk=32 stages=4 down=2 across=2 group=8 split=1`: mma.sync on 16-bit
// operands with sums in f32. `matmul_tf32 ...`: the same on f32 operands that are rounded to TF32.
struct MmaSchedule {
  bool tf32 = false;
  std::int64_t block_rows = 64, block_columns = 64, block_depth = 32;  // of a block's tile
  std::int64_t stages = 3;  // tiles of operands in shared memory
  std::int64_t warps_down = 2,
               warps_across = 2;  // the block's warps, each with an equal part of the tile
  std::int64_t group = 8;         // tiles below each other that run at about the same time
  std::int64_t split = 1;  // blocks of a cluster that share one tile's depth, and add their sums
                           // through each other's shared memory (sm_90)

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"bm", &MmaSchedule::block_rows},
                      ir::ScheduleField{"bn", &MmaSchedule::block_columns},
                      ir::ScheduleField{"bk", &MmaSchedule::block_depth},
                      ir::ScheduleField{"stages", &MmaSchedule::stages},
                      ir::ScheduleField{"down", &MmaSchedule::warps_down},
                      ir::ScheduleField{"across", &MmaSchedule::warps_across},
                      ir::ScheduleField{"group", &MmaSchedule::group},
                      ir::ScheduleField{"split", &MmaSchedule::split}};
  }
  static MmaSchedule from(const ir::Schedule& schedule);
  ir::Schedule schedule() const;

  std::int64_t threads() const { return 32 * warps_down * warps_across; }
  std::int64_t warp_rows() const { return block_rows / warps_down; }
  std::int64_t warp_columns() const { return block_columns / warps_across; }
  std::int64_t element_bytes() const { return tf32 ? 4 : 2; }
  std::int64_t stage_bytes() const {
    return (block_rows + block_columns) * block_depth * element_bytes();
  }
  // Columns that a warp brings from fragments to rows at a time, and the shared memory of all warps
  // for it, which stages' memory serves for.
  std::int64_t piece_columns() const;
  PieceLayout piece() const;  // of a warp
  std::int64_t piece_bytes() const;
  std::int64_t shared_bytes() const;  // dynamic shared memory of a block
  bool operator==(const MmaSchedule&) const = default;
};

// `matmul_simt bm=64 bn=64 bk=16 tm=4 tn=4 group=8`: ordinary arithmetic in any dtype, operands
// from any scalar program.
struct SimtSchedule {
  std::int64_t block_rows = 64, block_columns = 64, block_depth = 16;
  std::int64_t thread_rows = 4, thread_columns = 4;
  std::int64_t group = 8;

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"bm", &SimtSchedule::block_rows},
                      ir::ScheduleField{"bn", &SimtSchedule::block_columns},
                      ir::ScheduleField{"bk", &SimtSchedule::block_depth},
                      ir::ScheduleField{"tm", &SimtSchedule::thread_rows},
                      ir::ScheduleField{"tn", &SimtSchedule::thread_columns},
                      ir::ScheduleField{"group", &SimtSchedule::group}};
  }
  static SimtSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<SimtSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("matmul_simt", *this); }

  std::int64_t threads() const {
    return block_rows / thread_rows * (block_columns / thread_columns);
  }
  bool operator==(const SimtSchedule&) const = default;
};

// `matmul_wgmma bm=128 bn=128 stages=4 blocks=1 group=8 swap_ab=0 persistent=1 split=1`: wgmma on
// tiles that tensor memory access brings (sm_90a).
struct WgmmaSchedule {
  std::int64_t block_rows = 128, block_columns = 128;  // of a block's tile; 64 rows a warpgroup
  std::int64_t stages = 4;
  std::int64_t blocks = 1;  // intended blocks of a multiprocessor
  std::int64_t group = 8;
  bool swap_ab = false;  // the tile's rows are the product's columns and the other way round, for
                         // products of few rows
  bool persistent = false;  // as many blocks as run at once take one tile after the other
  std::int64_t split = 1;   // as of MmaSchedule; not where persistent
  // Blocks of a cluster that bring an operand to each other by multicast, each an equal part of it:
  // the columns' operand to tiles below each other, or the rows' operand to tiles beside each
  // other. At most one of them is more than 1; a field is left out where it is 1.
  std::int64_t multicast_columns = 1, multicast_rows = 1;
  // Bytes of an element (2 or 4) of results that leave through shared memory by tensor memory
  // access, 16 rows of a warp at a time; 0, and the field is left out, where threads store them.
  std::int64_t tma_store = 0;
  // Results of 16 bits are finished in registers, where sums lie as fragments, and leave through
  // two boxes of each warp, one being stored while the other is filled; left out where false.
  bool fragments = false;
  // Two consumer warpgroups have tiles of 64 rows of their own, in turn: one finishes its tile
  // while the other multiplies; left out where false.
  bool pingpong = false;

  static constexpr std::int64_t block_depth = 64;
  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"bm", &WgmmaSchedule::block_rows},
                      ir::ScheduleField{"bn", &WgmmaSchedule::block_columns},
                      ir::ScheduleField{"stages", &WgmmaSchedule::stages},
                      ir::ScheduleField{"blocks", &WgmmaSchedule::blocks},
                      ir::ScheduleField{"group", &WgmmaSchedule::group},
                      ir::ScheduleField{"swap_ab", &WgmmaSchedule::swap_ab},
                      ir::ScheduleField{"persistent", &WgmmaSchedule::persistent},
                      ir::ScheduleField{"split", &WgmmaSchedule::split},
                      ir::ScheduleField{"multicast_columns", &WgmmaSchedule::multicast_columns, 1},
                      ir::ScheduleField{"multicast_rows", &WgmmaSchedule::multicast_rows, 1},
                      ir::ScheduleField{"tma_store", &WgmmaSchedule::tma_store, 0},
                      ir::ScheduleField{"fragments", &WgmmaSchedule::fragments, 0},
                      ir::ScheduleField{"pingpong", &WgmmaSchedule::pingpong, 0}};
  }
  static WgmmaSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<WgmmaSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("matmul_wgmma", *this); }

  std::int64_t sharing() const {
    return multicast_columns * multicast_rows;
  }  // blocks that bring operands to each other
  std::int64_t consumer_warpgroups() const { return pingpong ? 2 : block_rows / 64; }
  std::int64_t threads() const { return 128 * (consumer_warpgroups() + 1); }
  std::int64_t stage_bytes() const { return (block_rows + block_columns) * block_depth * 2; }
  std::int64_t piece_columns() const;
  PieceLayout piece() const;           // of a warp
  PieceLayout joined() const;          // of a block's sums, where split
  std::int64_t pieces_bytes() const;   // of all consumer warps
  std::int64_t joined_bytes() const;   // of a block's sums, in place of the stages, where split
  std::int64_t pieces_offset() const;  // of shared memory, behind stages and barriers
  std::int64_t box_bytes() const;      // of a warp's boxes; 0: results leave without
  std::int64_t box_alignment() const;
  std::int64_t boxes_offset() const;  // behind the pieces
  std::int64_t shared_bytes() const;  // dynamic shared memory of a block

  // Registers of a thread: at launch, and of each role where warpgroups trade them (0: they don't).
  struct Registers {
    std::int64_t launch = 0, producer = 0, consumer = 0;
  };
  Registers registers(std::int64_t per_multiprocessor) const;
  std::int64_t registers_needed() const;  // by a consumer thread
  bool operator==(const WgmmaSchedule&) const = default;
};

// A warp's two boxes of fragments, 16 rows x 64 columns of 2 bytes each; and where boxes that are
// swizzled by 128 bytes begin.
inline constexpr std::int64_t fragment_bytes = 2 * 16 * 64 * 2, swizzled_box_alignment = 1024;

// Largest multiple of 16 that divides `columns` (a multiple of 16) and is at most 64.
std::int64_t piece_of(std::int64_t columns);

}  // namespace anydim::codegen_cuda
