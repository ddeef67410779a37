#include "codegen_cpu/rows/rows_schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/rows/shared_window.h"
#include "codegen_cpu/work_estimate.h"
#include "ir/loops/segment_rows.h"
#include "ir/region.h"

namespace anydim::codegen_cpu {

namespace {

using ir::RowForm;

int lanes_of(const PlanInputs& inputs, const RowForm& form) {
  int lanes = inputs.target.lanes(1);
  for (const ir::RowStage& stage : form.stages)
    lanes = std::min(lanes, natural_lanes(inputs.target, stage.program));
  return lanes;
}

int contiguity_along(const PlanInputs& inputs, const RowForm& form, const ir::DimLeaf& variable) {
  int balance = 0;
  for (const ir::RowStage& stage : form.stages) {
    if (!stage.per_row) balance += contiguity(inputs, stage.program, stage.stores, variable);
  }
  return balance;
}

std::int64_t narrowed(int lanes, std::int64_t longest) {
  return longest >= lanes ? lanes
                          : static_cast<std::int64_t>(std::bit_ceil(
                                static_cast<std::uint64_t>(std::max<std::int64_t>(longest, 1))));
}

std::int64_t highest(const PlanInputs& inputs, const ir::Iteration& iteration) {
  return ir::bounds(iteration.extent, inputs.form.symbols).high;
}

// Rows of windows that are computed at once, as many as registers hold sums and a line each for,
// beside a weight; in a loop, where lines may come from memory again, for sums alone; 1: none.
std::int64_t rows_together(const PlanInputs& inputs, const RowForm& form,
                           const SharedWindow& window) {
  const std::int64_t high = highest(inputs, form.outer[form.outer.size() - 2]);
  for (std::int64_t rows = 8; rows > 1; rows /= 2)
    if (rows <= high &&
        rows + (window.looped ? 0 : window.lines(rows)) < inputs.target.vector_registers())
      return rows;
  return 1;
}

// The part of a pass over windows that is left where `together` rows share lines: of all a line's
// work, or of its loads alone, beside which are multiply-adds where the processor has them.
double shared_part(const PlanInputs& inputs, const SharedWindow& window, std::int64_t together) {
  const auto of_rows = static_cast<double>(together * window.places);
  const double part = std::min(1.0, static_cast<double>(window.lines(together)) / of_rows);
  if (window.whole) return part;
  return (1 + part) / (inputs.target.fused_multiply_add() ? 4 : 2);
}

// Rows of few vectors, whose reductions take their time one after the other.
constexpr std::int64_t short_rows = 4;
bool is_short(const PlanInputs& inputs, const RowForm& form, std::int64_t lanes) {
  constexpr std::int64_t most_vectors = 8;
  const auto points = ir::points_of(form.inner).constant();
  return !form.segments && !form.outer.empty() && form.inner.size() == 1 && lanes > 1 && points &&
         *points <= most_vectors * lanes && inputs.target.level != Level::Baseline;
}

// Vectors of neighbouring rows that are reduced at once, where a row is long and its points lie
// far apart: each line and page that is brought in then gives more.
std::int64_t vectors_across(const PlanInputs& inputs, const RowForm& form, std::int64_t side) {
  constexpr std::int64_t long_row = 64;
  const auto points = ir::points_of(form.inner).constant(),
             rows = form.outer.back().extent.constant();
  if (!rows || (points && *points < long_row) || !form.scratch.empty()) return 1;
  for (std::int64_t vectors = 4; vectors > 1; vectors /= 2)
    if (*rows % (side * vectors) == 0 && *rows / (side * vectors) >= inputs.threads) return vectors;
  return 1;
}

class RowsKind final : public KindOf<ir::RowForm> {
 public:
  std::vector<ir::Schedule> candidates(const PlanInputs& inputs, const ir::Bucket&) const override {
    return ir::written(with_finer_grains(inputs, likely(inputs)));
  }

  std::vector<RowsSchedule> likely(const PlanInputs& inputs) const {
    const auto& form = form_of(inputs.form);
    const int lanes = lanes_of(inputs, form);
    const ir::Iteration& inner = form.inner.back();
    const std::int64_t along = narrowed(lanes, highest(inputs, inner));
    const std::int64_t turns =
        inner.extent.constant().value_or(0) / std::max<std::int64_t>(along, 1);
    const std::int64_t unroll = turns > 0 && turns % 4 == 0 ? 4 : turns == 1 ? 1 : 2;
    RowsSchedule rows{.vector = along, .unroll = unroll, .grain = 2048};
    if (is_short(inputs, form, along)) rows.together = short_rows;
    // Lanes may be rows of one segment's results, but not segments.
    if (form.outer.size() == (form.segments ? 1 : 0)) return {rows};
    const ir::Iteration& last = form.outer.back();
    const std::int64_t side = narrowed(lanes, highest(inputs, last));
    // Rows of few points, several vectors of them a task.
    std::int64_t grain = side;
    if (const auto points = ir::points_of(form.inner).constant()) {
      constexpr std::int64_t points_of_a_task = 4096;
      grain *=
          std::max<std::int64_t>(1, points_of_a_task / std::max<std::int64_t>(*points, 1) / side);
    }
    const std::int64_t wide = side * vectors_across(inputs, form, side);
    const RowsSchedule columns{.vector = wide, .grain = std::max(grain, wide), .across = true};
    if (const auto window = side > 1 ? shared_window(form) : std::nullopt) {
      if (const std::int64_t together = rows_together(inputs, form, *window); together > 1)
        return {windows(form, *window, side, together), columns, rows};
    }
    const int gain = contiguity_along(inputs, form, last.variable) -
                     contiguity_along(inputs, form, inner.variable);
    if (gain > 0 && side > 1) return {columns, rows};
    // A run along the row that fills no two vectors, as of a window, may take longer than one along
    // the rows.
    if (side > along || (side > 1 && highest(inputs, inner) < 2 * lanes)) return {rows, columns};
    return {rows};
  }

  static RowsSchedule windows(const RowForm& form, const SharedWindow& window, std::int64_t side,
                              std::int64_t together) {
    constexpr std::int64_t points_of_a_task = 65536;
    const std::int64_t points = form.outer.back().extent.constant().value_or(64) *
                                ir::points_of(form.inner).constant().value_or(window.places);
    std::int64_t groups = std::clamp<std::int64_t>(
        points_of_a_task / std::max<std::int64_t>(points * together, 1), 1, 64 / together);
    // Rows that fill no group are computed one by one: where a piece would be left of so few, they
    // are the other pieces'.
    if (const auto high = form.outer[form.outer.size() - 2].extent.constant())
      while (*high % (groups * together) != 0 && *high % (groups * together) < together) ++groups;
    return {.vector = side, .grain = groups * together, .across = true, .together = together};
  }

  std::vector<ir::Schedule> space(const PlanInputs& inputs, const ir::Bucket&) const override {
    const auto& form = form_of(inputs.form);
    const int lanes = lanes_of(inputs, form);
    std::vector<RowsSchedule> schedules;
    const std::int64_t along = narrowed(lanes, highest(inputs, form.inner.back()));
    for (const std::int64_t vector : {along, along / 2}) {
      if (vector < 1) continue;
      for (const std::int64_t unroll : {1, 2, 4})
        for (std::int64_t grain = 256; grain <= 32768; grain *= 2)
          schedules.push_back({.vector = vector, .unroll = unroll, .grain = grain});
    }
    if (form.outer.size() == (form.segments ? 1 : 0)) return ir::written(schedules);
    const std::int64_t side = narrowed(lanes, highest(inputs, form.outer.back()));
    if (side > 1)
      for (const std::int64_t times : {1, 2, 4, 8})
        schedules.push_back({.vector = side, .grain = side * times, .across = true});
    return ir::written(schedules);
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& chosen,
                  std::span<const std::int64_t> keys) const override {
    const auto& form = form_of(inputs.form);
    const RowsSchedule schedule = RowsSchedule::from(chosen);
    const auto lanes = static_cast<double>(schedule.vector);
    const bool across = schedule.across && !form.outer.empty();
    const ir::Iteration& run = across ? form.outer.back() : form.inner.back();
    const double rows = points_at(inputs, form.outer, keys),
                 all = points_at(inputs, form.inner, keys);
    const double inner = form.segments ? std::min<double>(all, ir::typical_segment_rows) : all;
    const bool only = across ? form.outer.size() == 1 : form.inner.size() == 1;
    const double length =
        only ? (across ? rows : inner) : static_cast<double>(run.extent.constant().value_or(256));
    const double waste = length > 0 ? std::ceil(length / lanes) * lanes / length : 1;
    const auto shared = shared_window(form);
    const auto window = across && schedule.together > 1 ? shared : std::nullopt;
    double cycles = rows * 10 / (across ? lanes : 1);
    for (const ir::RowStage& stage : form.stages) {
      const double point =
          point_cycles(inputs, stage.program, stage.stores, run.variable, static_cast<int>(lanes),
                       across ? Guards::Rare : Guards::Asked);
      // A horizontal sum at the end of every row, and the latency of the chain of additions.
      const double chain = 4 * inner / lanes;
      const double reduction =
          stage.reductions.empty() ? 0
          : across
              ? chain / static_cast<double>(chains_across(form.inner, form.segments.has_value()))
              : 20 + chain / static_cast<double>(schedule.unroll);
      if (window && !stage.per_row) {
        cycles += rows * inner * point * waste * shared_part(inputs, *window, schedule.together);
        continue;
      }
      // Across, a vector of rows goes through what each row has once.
      const double once = across ? point * waste : point * lanes;
      cycles += rows * (stage.per_row ? once : inner * point * waste + reduction);
    }
    const double elements_of_task =
        static_cast<double>(schedule.grain) *
        (window ? static_cast<double>(run.extent.constant().value_or(64)) : 1);
    const double tasks = std::max(
        1.0, across ? rows / elements_of_task : rows * inner / static_cast<double>(schedule.grain));
    // Of windows, what the one before has not read.
    const double read =
        shared ? rows * std::min<double>(inner, shared->row_step * shared->row_step) : rows * inner;
    return launch_seconds(inputs, cycles, ir::traffic_bytes(inputs.region, read, keys),
                          std::min(tasks, rows));
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_rows_kind() { return std::make_unique<RowsKind>(); }

}  // namespace anydim::codegen_cpu
