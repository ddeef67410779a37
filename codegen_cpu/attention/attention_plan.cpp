// Which attention schedules to consider, and what they cost.
#include <algorithm>
#include <cmath>

#include "codegen_cpu/attention/attention_schedule.h"
#include "codegen_cpu/attention/key_dots.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "codegen_cpu/work_estimate.h"
#include "ir/loops/segment_rows.h"

namespace anydim::codegen_cpu {

namespace {

constexpr double clock = 3.7e9;
constexpr double row_overhead = 60;  // cycles: reductions, rescaling of one row in one key block
constexpr double task_overhead = 300;
constexpr double softmax_cycles = 14;      // of a vector of scores
constexpr double pack_cycles = 6;          // of a vector of keys or values
constexpr double tile_block_cycles = 200;  // setting tile registers and emptying what they take

double rounded(double value, double to) { return std::ceil(value / to) * to; }
std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

class AttentionKind final : public KindOf<ir::AttentionForm> {
 public:
  std::vector<ir::Schedule> candidates(const PlanInputs& inputs, const ir::Bucket&) const override {
    const ir::DType dtype = compute_dtype(form_of(inputs.form).score.steps.back().dtype);
    const std::int64_t lanes = inputs.target.lanes(static_cast<int>(ir::size_of(dtype))),
                       panel = panel_columns(Product::of(dtype));
    // Two vectors of columns: short sequences end soon after a multiple of a panel.
    const std::int64_t columns = 2 * lanes;
    const std::int64_t rows = inputs.target.level == Level::Avx512 ? 8 : 6;
    const std::int64_t group = std::max(columns, panel);
    std::vector<ir::Schedule> schedules;
    std::vector<std::pair<std::int64_t, std::int64_t>> blocks{
        {64, 8}, {128, 8}, {256, 16}, {32, 4}, {64, 16}};
    // More threads want more tasks. Each packs the keys anew, so they do not get smaller still.
    if (inputs.threads > 2) blocks.emplace_back(32, 8);
    for (const auto& [block_rows, block_keys] : blocks) {
      schedules.push_back(AttentionSchedule{.rows = rows,
                                            .columns = columns,
                                            .block_rows = block_rows,
                                            .block_keys = block_keys * std::max(panel, group)}
                              .schedule());
    }
    // Two by two tiles of results load each operand's tile half as often as they multiply it.
    if (multiplies_tiles(inputs)) {
      for (const auto& [block_rows, keys] : {std::pair{64, 128}, {128, 128}, {256, 256}, {32, 64}})
        schedules.push_back(tile_schedule(2, 2 * panel, block_rows, keys));
    }
    if (reads_keys_in_place(inputs)) {
      // As much of a value as registers hold for four queries: fewer passes over the values.
      const auto width = form_of(inputs.form).width.extent.constant();
      std::int64_t vectors = inputs.target.vector_registers() / 8;
      while (vectors > 1 && (!width || rounded_up(*width, panel) % (vectors * lanes) != 0))
        vectors /= 2;
      schedules.push_back(AttentionSchedule{.rows = 4,
                                            .columns = vectors * lanes,
                                            .block_rows = 64,
                                            .block_keys = 16 * std::max(vectors * lanes, panel),
                                            .keys_in_place = true}
                              .schedule());
    }
    return schedules;
  }

  std::vector<ir::Schedule> space(const PlanInputs& inputs, const ir::Bucket&) const override {
    const ir::DType dtype = compute_dtype(form_of(inputs.form).score.steps.back().dtype);
    const std::int64_t lanes = inputs.target.lanes(static_cast<int>(ir::size_of(dtype))),
                       panel = panel_columns(Product::of(dtype));
    const std::int64_t registers = inputs.target.vector_registers();
    const bool in_place = reads_keys_in_place(inputs);
    std::vector<ir::Schedule> schedules;
    for (const std::int64_t vectors : {1, 2, 3, 4}) {
      const std::int64_t columns = vectors * lanes, group = std::max(columns, panel);
      if (group % columns != 0 || group % panel != 0) continue;
      for (const std::int64_t rows : {4, 6, 8, 12, 16}) {
        if (rows * vectors + vectors + 1 > registers) continue;
        for (const std::int64_t block_rows : {16, 32, 64, 128, 256}) {
          for (const std::int64_t groups : {2, 4, 8, 16, 32}) {
            if (block_rows < rows) continue;
            AttentionSchedule schedule{.rows = rows,
                                       .columns = columns,
                                       .block_rows = block_rows,
                                       .block_keys = groups * group};
            schedules.push_back(schedule.schedule());
            schedule.keys_in_place = true;
            if (in_place && rows <= 8) schedules.push_back(schedule.schedule());
          }
        }
      }
    }
    if (multiplies_tiles(inputs)) {
      for (const auto& [tiles, panels] : {std::pair{2, 2}, {1, 4}, {1, 2}, {1, 1}})
        for (const std::int64_t block_rows : {32, 64, 128, 256})
          for (const std::int64_t keys : {64, 128, 256, 512})
            schedules.push_back(tile_schedule(tiles, panels * panel, block_rows, keys));
    }
    return schedules;
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> extents) const override {
    const ir::AttentionForm& form = form_of(inputs.form);
    const AttentionSchedule fields = AttentionSchedule::from(schedule);
    const auto extent = [&](const ir::Dim& dim) {
      return static_cast<double>(extent_at(inputs, dim, extents));
    };
    const double batch = extent(ir::points_of(form.batch)), rows = extent(form.row.extent),
                 all_keys = extent(form.key.extent), depth = extent(form.depth.extent),
                 width = extent(form.width.extent);
    if (batch == 0 || rows == 0) return 0;
    const double keys =
        form.segments ? std::min<double>(all_keys, ir::typical_segment_rows) : all_keys;
    const ir::DType dtype = compute_dtype(form.score.steps.back().dtype);
    const double lanes = inputs.target.lanes(static_cast<int>(ir::size_of(dtype))),
                 panel = static_cast<double>(panel_columns(Product::of(dtype)));
    const double multiply = inputs.target.level == Level::Avx2 ? 0.5 : 1;
    const double row_blocks = std::ceil(rows / static_cast<double>(fields.block_rows)),
                 key_blocks = std::ceil(keys / static_cast<double>(fields.block_keys));
    const double task_rows = rows / row_blocks, padded_keys = rounded(keys, panel),
                 padded_width = rounded(width, panel);
    const double at_once =
        fields.keys_in_place ? 1
                             : static_cast<double>(attention_product(inputs.target, form).depths());
    const double products =
        fields.tiles
            ? tile_cycles(fields, task_rows, padded_keys, depth, panel) +
                  tile_cycles(fields, task_rows, padded_width, keys, panel) +
                  key_blocks * tile_block_cycles
            : task_rows * (padded_keys * depth + keys * padded_width) / lanes * multiply / at_once;
    const double softmax = task_rows * (padded_keys / lanes * softmax_cycles +
                                        key_blocks * (row_overhead + padded_width / lanes * 3));
    // Sums of a vector of keys are turned: shuffles, then additions.
    const double turning = task_rows * padded_keys * (std::log2(lanes) + 1);
    const double packing =
        keys * padded_width / lanes * pack_cycles +
        (fields.keys_in_place ? turning : padded_keys * depth / lanes * pack_cycles);
    const double busiest = std::ceil(batch * row_blocks / inputs.threads) *
                           (task_overhead + products + softmax + packing) / clock;
    return shared_seconds(inputs, busiest, batch * row_blocks);
  }

  std::vector<std::vector<std::int64_t>> key_edges(const PlanInputs& inputs) const override {
    // Beyond one block of rows the split of rows into tasks matters; below, every schedule is the
    // same.
    const ir::AttentionForm& form = form_of(inputs.form);
    const std::vector<std::int64_t> few = reads_keys_in_place(inputs)
                                              ? std::vector<std::int64_t>{2, 5, 9}
                                              : std::vector<std::int64_t>{};
    std::vector<std::vector<std::int64_t>> edges;
    for (const ir::Dim& key : inputs.region.keys) {
      std::vector<std::int64_t>& along = edges.emplace_back();
      if (key != form.row.extent) continue;
      along = few;
      // More rows than a tile's are worth setting tile registers.
      if (multiplies_tiles(inputs)) along.push_back(tile_rows + 1);
      along.insert(along.end(), {65, 257});
    }
    return edges;
  }

 private:
  static bool multiplies_tiles(const PlanInputs& inputs) {
    return attention_product(inputs.target, form_of(inputs.form)).in_tiles(inputs.target);
  }
  static ir::Schedule tile_schedule(std::int64_t tiles, std::int64_t columns,
                                    std::int64_t block_rows, std::int64_t block_keys) {
    return AttentionSchedule{.rows = tiles * tile_rows,
                             .columns = columns,
                             .block_rows = block_rows,
                             .block_keys = block_keys,
                             .tiles = true}
        .schedule();
  }

  // Of rows x columns results over so many depths: products, and loads and stores of operands' and
  // results' tiles.
  static double tile_cycles(const AttentionSchedule& schedule, double rows, double columns,
                            double depth, double panel) {
    constexpr double tile_depth = 2 * tile_steps;  // of pairs
    const double row_tiles = std::ceil(rows / tile_rows), column_tiles = columns / panel,
                 steps = std::ceil(depth / tile_depth);
    const double rows_at_once = static_cast<double>(schedule.rows / tile_rows),
                 columns_at_once = static_cast<double>(schedule.columns) / panel;
    return row_tiles * column_tiles *
           (steps * (tile_multiply_cycles + tile_load_cycles / rows_at_once +
                     tile_load_cycles / columns_at_once) +
            tile_store_cycles);
  }

  // Only forms with keys of their own do: where queries are the keys' own rows they are as many as
  // those, and soon too many.
  static bool reads_keys_in_place(const PlanInputs& inputs) {
    const ir::AttentionForm& form = form_of(inputs.form);
    return form.row.extent != form.key.extent &&
           whole_keys(inputs.target, inputs.region, form, inputs.form.symbols).has_value();
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_attention_kind() { return std::make_unique<AttentionKind>(); }

}  // namespace anydim::codegen_cpu
