// Which schedules a map has, and what they cost.
#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/loops/loop_schedules.h"
#include "codegen_cpu/loops/map_tile.h"
#include "codegen_cpu/loops/shared_steps.h"
#include "codegen_cpu/work_estimate.h"
#include "ir/region.h"

namespace anydim::codegen_cpu {

namespace {

using ir::MapForm;

constexpr std::int64_t most_grain = 16384;

// Elements whose work is worth handing to another worker.
std::int64_t grain_for(double cycles) {
  constexpr double task_cycles = 6000;
  const double elements = std::clamp(task_cycles / cycles, 64.0, static_cast<double>(most_grain));
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(elements)));
}

const ir::Iteration* last_of(const ir::MapPart& part) {
  return part.space.empty() ? nullptr : &part.space.back();
}

// Lanes of a tile's side, at most `lanes` and what each part that has tiles allows; 0: none has.
std::int64_t tile_side(const PlanInputs& inputs, std::int64_t lanes) {
  std::int64_t side = 0;
  for (const ir::MapPart& part : std::get<MapForm>(inputs.form.kind).parts)
    if (const auto tile = tile_of(part, inputs.form))
      side = std::min(side == 0 ? lanes : side, tile->lanes);
  return side;
}

double part_cycles(const PlanInputs& inputs, const ir::MapPart& part, int lanes, bool tiled) {
  const ir::Iteration* last = last_of(part);
  const double all =
      point_cycles(inputs, part.program, part.stores, last ? last->variable : ir::DimLeaf(), lanes);
  if (const auto tile = tiled ? tile_of(part, inputs.form) : std::nullopt)
    return all - static_cast<double>(tile->loads.size()) * cycles_saved_by_tile(lanes) / lanes;
  const SharedSteps shared = shared_steps(part, inputs.form.symbols);
  return shared.kept.empty() ? all : all - cycles_saved(part, shared) / lanes;
}

class MapKind final : public KindOf<ir::MapForm> {
 public:
  std::vector<ir::Schedule> candidates(const PlanInputs& inputs, const ir::Bucket&) const override {
    const auto& form = form_of(inputs.form);
    int lanes = 1;
    double cycles = 0;
    std::int64_t longest = 1;
    std::size_t steps = 0;
    for (const ir::MapPart& part : form.parts) {
      lanes = std::max(lanes, natural_lanes(inputs.target, part.program));
      const ir::Iteration* last = last_of(part);
      longest = std::max(longest, last ? ir::bounds(last->extent, inputs.form.symbols).high : 1);
      steps += part.program.steps.size();
    }
    // No wider than a row of elements.
    if (longest < lanes)
      lanes = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(longest)));
    for (const ir::MapPart& part : form.parts)
      cycles = std::max(cycles, part_cycles(inputs, part, lanes, false));
    const std::int64_t unroll = steps > 24 || longest < 2 * lanes ? 1 : 2;
    std::vector<MapSchedule> schedules{
        {.vector = lanes, .unroll = unroll, .grain = grain_for(cycles)}};
    if (const std::int64_t side = tile_side(inputs, lanes); side > 1)
      schedules.push_back({.vector = side, .grain = most_grain, .tile = true});
    return ir::written(with_finer_grains(inputs, std::move(schedules)));
  }

  std::vector<ir::Schedule> space(const PlanInputs& inputs,
                                  const ir::Bucket& bucket) const override {
    const std::int64_t lanes = MapSchedule::from(candidates(inputs, bucket).front()).vector;
    std::vector<MapSchedule> schedules;
    for (const std::int64_t vector : {lanes, lanes / 2}) {
      if (vector < 1) continue;
      for (const std::int64_t unroll : {1, 2, 4}) {
        for (std::int64_t grain = 64; grain <= 65536; grain *= 4)
          schedules.push_back({.vector = vector, .unroll = unroll, .grain = grain});
      }
    }
    if (const std::int64_t side = tile_side(inputs, lanes); side > 1)
      for (std::int64_t grain = 1024; grain <= 65536; grain *= 4)
        schedules.push_back({.vector = side, .grain = grain, .tile = true});
    return ir::written(schedules);
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& chosen,
                  std::span<const std::int64_t> keys) const override {
    const auto& form = form_of(inputs.form);
    const MapSchedule schedule = MapSchedule::from(chosen);
    const auto lanes = static_cast<double>(schedule.vector);
    double cycles = 0, points = 0;
    for (const ir::MapPart& part : form.parts) {
      const double part_points = points_at(inputs, part.space, keys);
      const ir::Iteration* last = last_of(part);
      // Where the length of a row isn't known, rows are taken for long.
      const double length = part.space.size() == 1 ? part_points
                            : last ? static_cast<double>(last->extent.constant().value_or(256))
                                   : 1;
      const double rows = length > 0 ? part_points / length : 0;
      cycles += rows * (10 + std::ceil(length / lanes) * lanes *
                                 part_cycles(inputs, part, static_cast<int>(lanes), schedule.tile));
      points += part_points;
    }
    return launch_seconds(inputs, cycles, ir::traffic_bytes(inputs.region, points, keys),
                          points / static_cast<double>(schedule.grain));
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_map_kind() { return std::make_unique<MapKind>(); }

}  // namespace anydim::codegen_cpu
