// Schedules of ordered forms: `ordered grain=POINTS` (points of one task). Points of a row come one after the other, so there are no lanes.
#include <algorithm>

#include "codegen_cpu/spaces.h"
#include "codegen_cpu/work_estimate.h"

namespace anydim::codegen_cpu {

std::vector<ir::Schedule> ordered_candidates() { return {{.name = "ordered", .fields = {{"grain", 1024}}}}; }

std::vector<ir::Schedule> ordered_space() {
  std::vector<ir::Schedule> schedules;
  for (const std::int64_t grain : {64, 256, 1024, 4096}) schedules.push_back({.name = "ordered", .fields = {{"grain", grain}}});
  return schedules;
}

double ordered_cost(const PlanInputs& inputs, const ir::Schedule& schedule, std::span<const std::int64_t> keys, int threads) {
  const auto& form = std::get<ir::OrderedForm>(inputs.form.skeleton);
  const double rows = points_at(inputs, form.outer, keys);
  double cycles = rows * 10, points = 0;
  for (const ir::OrderedStage& stage : form.stages) {
    std::vector<ir::Store> stores;
    for (const auto& update : stage.updates) stores.push_back(update.store);
    const double inner = points_at(inputs, stage.inner, keys);
    const ir::DimLeaf run = stage.inner.empty() ? ir::DimLeaf() : stage.inner.back().variable;
    cycles += rows * inner * (2 + point_cycles(inputs, stage.program, stores, run, 1));
    points += rows * inner;
  }
  const double tasks = std::clamp(points / static_cast<double>(schedule.field("grain")), 1.0, std::max(rows, 1.0));
  return launch_seconds(cycles, traffic_bytes(inputs, points), tasks, threads);
}

std::vector<std::vector<std::int64_t>> ordered_edges(const PlanInputs& inputs) {
  return {inputs.region.keys.size(), std::vector<std::int64_t>{}};
}

}  // namespace anydim::codegen_cpu
