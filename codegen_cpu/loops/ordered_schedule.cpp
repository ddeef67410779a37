// Which schedules an ordered form has, and what they cost.
#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/loops/loop_schedules.h"
#include "codegen_cpu/work_estimate.h"
#include "ir/region.h"

namespace anydim::codegen_cpu {

namespace {

std::vector<ir::Store> stores_of(const ir::OrderedStage& stage) {
  std::vector<ir::Store> stores;
  for (const auto& update : stage.updates) stores.push_back(update.store);
  return stores;
}

struct Lanes {
  int rows = 1;  // at once, as many as suit the form; 1 where a stage is for some of them alone
  bool side_by_side = false;  // is what they read and write
};

Lanes lanes_of(const PlanInputs& inputs, const ir::OrderedForm& form) {
  if (form.outer.empty()) return {};
  const ir::Iteration& rows = form.outer.back();
  int lanes = 1, side_by_side = 0;
  for (const ir::OrderedStage& stage : form.stages) {
    for (const auto& condition : stage.conditions)
      if (condition.left.mentions(rows.variable) || condition.right.mentions(rows.variable))
        return {};
    lanes = std::max(lanes, natural_lanes(inputs.target, stage.program));
    side_by_side += contiguity(inputs, stage.program, stores_of(stage), rows.variable);
  }
  const std::int64_t longest = ir::bounds(rows.extent, inputs.form.symbols).high;
  if (longest < 2) return {};
  if (longest < lanes) lanes = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(longest)));
  return {lanes, side_by_side > 0};
}

constexpr OrderedSchedule row_by_row{.grain = 1024};

class OrderedKind final : public KindOf<ir::OrderedForm> {
 public:
  std::vector<ir::Schedule> candidates(const PlanInputs& inputs, const ir::Bucket&) const override {
    const auto& form = form_of(inputs.form);
    const auto [lanes, side_by_side] = lanes_of(inputs, form);
    std::vector<OrderedSchedule> schedules;
    if (lanes == 1 || !side_by_side) schedules.push_back(row_by_row);
    if (gathers_rows(inputs)) schedules.push_back({.vector = lanes, .grain = row_by_row.grain});
    if (!schedules.empty()) return ir::written(schedules);
    const std::int64_t longest = ir::bounds(form.outer.back().extent, inputs.form.symbols).high;
    for (const std::int64_t unroll : {4, 2, 1})
      if (unroll == 1 || lanes * unroll <= longest)
        schedules.push_back({.vector = lanes, .unroll = unroll, .grain = 4096});
    return ir::written(schedules);
  }

  std::vector<std::vector<std::int64_t>> key_edges(const PlanInputs& inputs) const override {
    // One or two rows leave lanes idle for which gathered rows pay.
    std::vector<std::vector<std::int64_t>> edges(inputs.region.keys.size());
    if (!gathers_rows(inputs)) return edges;
    for (std::size_t i = 0; i < edges.size(); ++i)
      if (inputs.region.keys[i] == form_of(inputs.form).outer.back().extent) edges[i] = {3};
    return edges;
  }

  std::vector<ir::Schedule> space(const PlanInputs& inputs,
                                  const ir::Bucket& bucket) const override {
    std::vector<OrderedSchedule> schedules;
    for (const std::int64_t grain : {64, 256, 1024, 4096, 16384})
      for (const ir::Schedule& likely : candidates(inputs, bucket)) {
        schedules.push_back(OrderedSchedule::from(likely));
        schedules.back().grain = grain;
      }
    return ir::written(schedules);
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& chosen,
                  std::span<const std::int64_t> keys) const override {
    const auto& form = form_of(inputs.form);
    const OrderedSchedule schedule = OrderedSchedule::from(chosen);
    const auto lanes = static_cast<double>(schedule.vector),
               unroll = static_cast<double>(schedule.unroll);
    const double rows = points_at(inputs, form.outer, keys);
    // Where the rows that lie side by side aren't counted, they are taken for many.
    const double length =
        form.outer.size() == 1 ? rows
        : form.outer.empty()
            ? 1
            : static_cast<double>(form.outer.back().extent.constant().value_or(256));
    const double vectors = length > 0 ? rows / length * std::ceil(length / lanes) : 0;
    const double turns = length > 0 ? rows / length * std::ceil(length / lanes / unroll) : 0;
    double cycles = turns * 10, points = 0;
    for (const ir::OrderedStage& stage : form.stages) {
      const double inner = points_at(inputs, stage.inner, keys);
      const ir::DimLeaf run =
          form.outer.empty() || lanes == 1
              ? stage.inner.empty() ? ir::DimLeaf() : stage.inner.back().variable
              : form.outer.back().variable;
      const double vector = lanes * point_cycles(inputs, stage.program, stores_of(stage), run,
                                                 static_cast<int>(lanes));
      cycles += inner * (turns * 4 + vectors * vector);
      points += rows * inner;
    }
    const double tasks =
        std::clamp(points / static_cast<double>(schedule.grain), 1.0, std::max(turns, 1.0));
    return launch_seconds(inputs, cycles, ir::traffic_bytes(inputs.region, points, keys), tasks);
  }

 private:
  // Whether many rows that lie apart are faster in lanes, as where points take logarithms.
  bool gathers_rows(const PlanInputs& inputs) const {
    const auto [lanes, side_by_side] = lanes_of(inputs, form_of(inputs.form));
    if (lanes == 1 || side_by_side) return false;
    const OrderedSchedule gathered{.vector = lanes, .grain = row_by_row.grain};
    const std::vector<std::int64_t> many(inputs.region.keys.size(), 256);
    // Rows whose length is a power of two share the cache's sets, which no estimate tells: a gain
    // has to outweigh that each point of every lane comes from the next cache.
    constexpr double least_gain = 4;
    return estimate(inputs, gathered.schedule(), many) * least_gain <
           estimate(inputs, row_by_row.schedule(), many);
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_ordered_kind() { return std::make_unique<OrderedKind>(); }

}  // namespace anydim::codegen_cpu
