// Schedules of ordered forms: `ordered grain=POINTS` (points of one task). Points of a row come one
// after the other, so there are no lanes.
#include <algorithm>

#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/work_estimate.h"

namespace anydim::codegen_cpu {

namespace {

class OrderedKind final : public KindOf<ir::OrderedForm> {
 public:
  std::string_view name() const override { return "ordered"; }

  std::vector<ir::Schedule> candidates(const PlanInputs&, const ir::Bucket&) const override {
    return {{.name = "ordered", .fields = {{"grain", 1024}}}};
  }

  std::vector<ir::Schedule> space(const PlanInputs&, const ir::Bucket&) const override {
    std::vector<ir::Schedule> schedules;
    for (const std::int64_t grain : {64, 256, 1024, 4096})
      schedules.push_back({.name = "ordered", .fields = {{"grain", grain}}});
    return schedules;
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    const auto& form = form_of(inputs.form);
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
    const double tasks =
        std::clamp(points / static_cast<double>(schedule.field("grain")), 1.0, std::max(rows, 1.0));
    return launch_seconds(inputs, cycles, traffic_bytes(inputs, points, keys), tasks);
  }

 protected:
  EmittedKernel emit_form(KernelBuilder& kernel, const ir::OrderedForm& form,
                          const ir::Schedule& schedule) const override {
    return emit_ordered(kernel, form, schedule);
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_ordered_kind() { return std::make_unique<OrderedKind>(); }

}  // namespace anydim::codegen_cpu
