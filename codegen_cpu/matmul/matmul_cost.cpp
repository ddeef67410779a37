#include "codegen_cpu/matmul/matmul_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "codegen_cpu/work_estimate.h"

namespace anydim::codegen_cpu {

namespace {

// Measured on a Zen 4 core (3.7 GHz, two 256-bit multiply-adds a cycle, 1 MB of second-level
// cache); what matters is their proportion.
constexpr double clock = 3.7e9;
constexpr double task_overhead = 150;    // cycles: decoding, first addresses
constexpr double call_overhead = 20;     // cycles of a micro-kernel call without its loop
constexpr double vector_overhead = 2.5;  // storing a tile's vector and reading it again
constexpr double first_cache = 32e3, second_cache = 1e6;       // bytes
constexpr double second_bandwidth = 30, third_bandwidth = 24;  // bytes a cycle of one core
constexpr double store_row = 20;  // a run of a row written to results that no cache holds
constexpr double second_cache_load =
    2.4;                           // an element of a row whose line has left the first-level cache
constexpr double turn_cycles = 6;  // a vector of a tile turned in registers
constexpr double pack_cycles = 4;  // a vector copied by columns or rows
constexpr double gather_cycles = 6;  // an element of a window that is copied by itself
constexpr double run_cycles = 3, copy_cycles = 2;  // a run of a row, and a vector of it
constexpr double unpack_cycles = 6;                // of a vector of a scaled weight, to memory

double program_cycles(const ir::ScalarProgram& program) {
  double cycles = 0;
  for (const ir::ScalarStep& step : program.steps) {
    if (step.is<ir::step::Apply>()) cycles += operation_cycles(step);
    if (step.is<ir::step::Load>()) cycles += 1;
  }
  return cycles;
}

}  // namespace

double rows_without_conflict(std::int64_t stride) {
  constexpr std::int64_t all_sets = 4096, rows_of_a_set = 6;
  if (stride == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(all_sets / std::gcd(stride, all_sets) * rows_of_a_set);
}

MatmulCost::MatmulCost(const Target& target, const ir::MatmulForm& form,
                       const LikelyOperands& operands, const SharedRows& shared)
    : lanes_(target.lanes(static_cast<int>(ir::size_of(compute_dtype(form.accumulate))))),
      panel_(panel_columns(operands.product)), gates_(static_cast<double>(form.gates())),
      step_depths_(static_cast<double>(operands.product.depths())),
      left_bytes_(step_depths_ * static_cast<double>(ir::size_of(operands.product.left)) /
                  shared.reuse),
      result_bytes_(static_cast<double>(ir::size_of(compute_dtype(form.accumulate)))),
      step_bytes_(static_cast<double>(operands.product.step_bytes()) *
                  (operands.in_4_bits ? 0.5 : 1)),
      multiply_cycles_(target.level == Level::Avx2 ? 0.5 : 1), unpack_right_cycles_(0),
      unpack_left_cycles_(0),
      epilogue_cycles_(gates_ * vector_overhead + program_cycles(form.epilogue)),
      conflicting_rows_(rows_without_conflict(operands.left_stride)), shared_(shared),
      left_in_place_(operands.left_in_place),
      left_panels_(operands.left_panels && !operands.product.in_tiles(target)),
      weight_(operands.weight), turned_results_(operands.turned_results) {
  if (operands.product.right == ir::DType::BF16 && !target.avx512_bf16) {
    unpack_right_cycles_ = unpack_left_cycles_ = 2 * multiply_cycles_;
    multiply_cycles_ *= 2;
  }
  if (operands.product.scaled()) {
    unpack_right_cycles_ = 0.55;
    unpack_left_cycles_ = 0.33;
  }
  if (operands.product.rounded()) {
    // A block's sums are made real, scaled and added, and what its zero point takes from them.
    constexpr double operations_of_block = 4;
    multiply_cycles_ *=
        1 + operations_of_block * step_depths_ / static_cast<double>(form.left_block);
    unpack_right_cycles_ = operands.in_4_bits ? 0.8 : 0;
  }
  for (const ir::RowStage& stage : form.rows) epilogue_cycles_ += 1 + program_cycles(stage.program);
}

// Rows of windows are parts of lines, which tile registers read as rows that are put together of
// them. Micro-kernels of vectors read whole steps: shorter runs are gathered element by element.
double MatmulCost::pack_rows_cycles(const MatmulSchedule& schedule, double task_rows,
                                    double steps) const {
  const double of_elements = task_rows / static_cast<double>(lanes_) * steps * pack_cycles;
  if (shared_.run == 0) return of_elements;
  const auto run = static_cast<double>(shared_.run);
  const double depths = steps * step_depths_;
  if (!schedule.tiles && std::fmod(run, step_depths_) != 0)
    return task_rows * depths * gather_cycles;
  const double lines = of_elements / shared_.reuse;
  if (!schedule.tiles) return lines;
  const double vectors = std::ceil(run / (static_cast<double>(panel_) * step_depths_));
  return lines + task_rows * depths / run * (run_cycles + vectors * copy_cycles);
}

double MatmulCost::task_cycles(const MatmulSchedule& schedule, const MatmulExtents& extents,
                               double task_rows, double task_columns, int threads) const {
  const double steps = std::ceil(static_cast<double>(extents.depth) / step_depths_),
               bytes = schedule.unpack ? result_bytes_ : step_bytes_,
               lanes = static_cast<double>(lanes_);
  const double padded =
      std::ceil(task_columns / static_cast<double>(panel_)) * static_cast<double>(panel_);
  const double columns = static_cast<double>(schedule.columns);
  const double wide = std::floor(padded / columns);
  const double narrow =
      schedule.columns > panel_ ? (padded - wide * columns) / static_cast<double>(panel_) : 0;
  const double calls = std::ceil(task_rows / static_cast<double>(schedule.rows));
  const double rows =
      schedule.tiles ? std::ceil(task_rows / calls / tile_rows) * tile_rows : task_rows / calls;
  // Where the right operand's panels come from while one group's rows pass.
  const double right_bytes =
      (schedule.unpack ? columns : gates_ * static_cast<double>(extents.columns) / threads) *
      steps * bytes;
  const double bandwidth = right_bytes > second_cache * 0.8 ? third_bandwidth : second_bandwidth;

  const double stored =
      static_cast<double>(extents.rows) * static_cast<double>(extents.columns) * result_bytes_ >
              second_cache
          ? store_row
          : 0;

  const bool rows_outermost = schedule.rows_outermost(
      static_cast<std::int64_t>(padded), static_cast<std::int64_t>(gates_ * steps * bytes));
  // Tile registers' results are not fetched ahead: the lines that a processor fetches beside those
  // of one group of columns have left the caches when the next group writes them.
  const bool passed_twice =
      schedule.tiles && !rows_outermost &&
      task_rows * static_cast<double>(extents.columns) * result_bytes_ > second_cache;

  const auto group_cycles = [&](double width) {
    const double vectors = width / lanes;
    // Multiply-adds, or loads where they are more; at least the latency of one chain of them.
    const double unpack =
        schedule.unpack ? 0 : vectors * unpack_right_cycles_ + rows * unpack_left_cycles_;
    double step = std::max({rows * vectors * multiply_cycles_ + unpack, vectors + rows / 2,
                            4.0 / (rows * vectors >= 4 ? 4 : 1)});
    if (left_in_place_ && rows > conflicting_rows_) step = std::max(step, rows * second_cache_load);
    if (schedule.tiles) {
      const double row_tiles = rows / tile_rows, column_tiles = width / static_cast<double>(panel_);
      step = std::max(row_tiles * column_tiles * tile_multiply_cycles,
                      (row_tiles + column_tiles) * tile_load_cycles) /
             tile_steps;
    }
    double runs = 1;  // of each row, that results have to be fetched for
    if (rows_outermost) runs = width / padded;
    else if (passed_twice && width < static_cast<double>(extents.columns)) runs = 2;
    const double epilogue =
        turned_results_ ? calls * std::ceil(rows / lanes) * width * (epilogue_cycles_ + turn_cycles)
                        : task_rows * (vectors * epilogue_cycles_ + runs * stored);
    const double compute = gates_ * calls * (steps * step + call_overhead) + epilogue;
    const double panel_bytes = gates_ * width * steps * bytes;
    const double first =
        panel_bytes / bandwidth;  // streamed once into the first-level cache, or past it
    const double again =
        panel_bytes > first_cache ? (calls - 1) * panel_bytes / second_bandwidth : 0;
    const double left_bytes = task_rows * steps * left_bytes_;
    const double left = left_bytes > second_cache * 0.6 ? left_bytes / third_bandwidth * 0.15 : 0;
    // A panel that is read while it is multiplied costs nothing of its own until it is slower than
    // the arithmetic.
    return std::max(compute, first + again) + left + std::min(compute, first + again) * 0.03;
  };
  double cycles = task_overhead + wide * group_cycles(columns) +
                  (narrow > 0 ? narrow * group_cycles(static_cast<double>(panel_)) : 0);
  if (!left_in_place_)
    cycles += left_panels_ && shared_.run == 0
                  ? calls * std::ceil(rows / lanes) * steps * pack_cycles
                  : pack_rows_cycles(schedule, task_rows, steps);
  if (!weight_) cycles += gates_ * padded * steps / lanes * pack_cycles;
  if (schedule.unpack) cycles += padded * steps / lanes * unpack_cycles;
  return cycles;
}

namespace {

double column_blocks_of(const MatmulSchedule& schedule, const MatmulExtents& extents) {
  return schedule.block_columns == 0 ? 1
                                     : std::ceil(static_cast<double>(extents.columns) /
                                                 static_cast<double>(schedule.block_columns));
}

}  // namespace

double MatmulCost::tasks(const MatmulSchedule& schedule, const MatmulExtents& extents) {
  return static_cast<double>(schedule.row_blocks(extents.rows)) *
         column_blocks_of(schedule, extents) * static_cast<double>(extents.batch);
}

double MatmulCost::seconds(const MatmulSchedule& schedule, const MatmulExtents& extents,
                           int threads) const {
  if (extents.batch == 0 || extents.rows == 0 || extents.columns == 0) return 0;
  const auto row_blocks = static_cast<double>(schedule.row_blocks(extents.rows));
  const double column_blocks = column_blocks_of(schedule, extents);
  const double task_columns = column_blocks == 1 ? static_cast<double>(extents.columns)
                                                 : static_cast<double>(schedule.block_columns);
  const double task_rows = static_cast<double>(extents.rows) / row_blocks;
  const auto task = [&](double columns) {
    return task_cycles(schedule, extents, task_rows, columns, threads);
  };
  const double blocks = row_blocks * static_cast<double>(extents.batch);
  // The worker with most tasks decides; on one thread, the last block of columns is as narrow as it
  // is.
  if (threads > 1) return std::ceil(blocks * column_blocks / threads) * task(task_columns) / clock;
  const double last = static_cast<double>(extents.columns) - task_columns * (column_blocks - 1);
  return blocks * ((column_blocks - 1) * task(task_columns) + task(last)) / clock;
}

}  // namespace anydim::codegen_cpu
