// The schedules of a matmul, as a struct.
#pragma once

#include <cstdint>
#include <set>

#include "ir/dims/dim.h"
#include "ir/dims/symbols.h"
#include "ir/loops/loop_form.h"
#include "ir/schedule_fields.h"

namespace anydim::codegen_cpu {

// A tile register holds so many rows of results or of left operands, or so many steps
// (codegen_cpu/matmul/matmul_operands.h) of right ones.
inline constexpr std::int64_t tile_rows = 16, tile_steps = 16;

// a / b rounded up, of numbers above 0
constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Whether so many columns, filled up to whole panels, are groups of `group` columns each, which a
// micro-kernel computes; else panels are left.
bool whole_groups(const ir::Dim& columns, std::int64_t group, std::int64_t panel);

// `matmul rows=8 columns=48 block_rows=96 block_columns=48 order=0 split=1`, on tile registers with
// `tiles=1` at the end, of a scaled weight that is unpacked with `unpack=1`
//
// A task computes a block of block_rows x block_columns (at most; 0: all of them) of one batch
// point; inside, column groups are outermost and row blocks pass under each of them, so that a
// group of the right operand's panels stays in a cache while rows stream. Where all that the task
// reads of the right operand stays there, groups pass under each row block, whose results are then
// written in long runs.
struct MatmulSchedule {
  enum class Order : std::uint8_t {
    ColumnsOuter,
    RowsOuter
  };  // which blocks consecutive tasks share
  std::int64_t rows = 1;      // of the micro-kernel, at most: rows of a task are split evenly
  std::int64_t columns = 16;  // of the micro-kernel
  std::int64_t block_rows = 0;
  std::int64_t block_columns = 0;
  Order order = Order::ColumnsOuter;
  bool tiles = false;      // the micro-kernel works on tile registers: rows are 16 or 32, columns
                           // panels, up to four tiles of results in all
  bool unpack = false;     // a group's panels of a scaled weight are made real before rows pass
  std::int64_t split = 1;  // row blocks are made as many as a multiple of this, so that as many
                           // threads get even shares

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"rows", &MatmulSchedule::rows},
                      ir::ScheduleField{"columns", &MatmulSchedule::columns},
                      ir::ScheduleField{"block_rows", &MatmulSchedule::block_rows},
                      ir::ScheduleField{"block_columns", &MatmulSchedule::block_columns},
                      ir::ScheduleField{"order", &MatmulSchedule::order},
                      ir::ScheduleField{"split", &MatmulSchedule::split},
                      ir::ScheduleField{"tiles", &MatmulSchedule::tiles, 0},
                      ir::ScheduleField{"unpack", &MatmulSchedule::unpack, 0}};
  }
  static MatmulSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<MatmulSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("matmul", *this); }
  bool operator==(const MatmulSchedule&) const = default;

  // Whether groups pass under row blocks, of a task that reads so many columns of the right
  // operand, each of so many bytes.
  bool rows_outermost(std::int64_t task_columns, std::int64_t column_bytes) const {
    constexpr std::int64_t part_of_first_cache = 16 << 10;
    return !tiles && task_columns > columns && task_columns * column_bytes <= part_of_first_cache;
  }

  // Of rows in units of so many: the units of a task, at most, and the blocks of all.
  ir::Dim block_units(const ir::Dim& units, const ir::Dim& unit) const;
  ir::Dim row_blocks(const ir::Dim& units, const ir::Dim& unit) const;
  ir::Dim column_blocks(const ir::MatmulForm& form) const;
  std::int64_t row_blocks(std::int64_t rows_of_form) const;  // of a concrete extent
  // The fewest rows of a task for a row extent within `extent`; at least 1.
  std::int64_t fewest_rows(ir::Interval extent) const;
  // Row counts that micro-kernels are called with for a row extent within `extent`.
  std::set<std::int64_t> row_counts(ir::Interval extent) const;
};

}  // namespace anydim::codegen_cpu
