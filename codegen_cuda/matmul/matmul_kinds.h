// What the plans of the ways to compute a matmul share.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "codegen_cuda/kernel_kind.h"
#include "codegen_cuda/matmul/matmul_cost.h"

namespace anydim::codegen_cuda {

// Steps of tiles: below each other's number of rows another tile may be best.
std::vector<std::vector<std::int64_t>> matmul_edges(const PlanInputs& inputs);

// The part of a cost that doesn't depend on how products are computed: epilogue and bytes.
MatmulWork common_work(const PlanInputs& inputs);

// The schedule itself, and where a device has clusters the same with its depth split. What that is
// worth is the model's to say.
template <typename Schedule, typename Use>
void add_with_splits(const PlanInputs& inputs, Schedule schedule, const MatmulExtents& typical,
                     const Use& use) {
  use(schedule);
  // With less depth for each block most of its time is the sums' way, split or not.
  constexpr std::int64_t least_depth = 128;
  for (const std::int64_t split : {2, 4, 8}) {
    if (inputs.target.capability() < 90 || typical.depth < least_depth * split) break;
    schedule.split = split;
    use(schedule);
  }
}

// A way to compute a matmul whose schedules are of one struct. What they cost follows from their
// work.
template <typename Schedule>
class MatmulKind : public KindOf<ir::MatmulForm> {
 public:
  std::vector<ir::Schedule> candidates(const PlanInputs& inputs,
                                       const ir::Bucket& bucket) const override {
    return best_of(legal(inputs, bucket), cost(inputs, bucket));
  }
  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    return matmul_seconds(inputs.target, work_of(inputs, Schedule::from(schedule)),
                          matmul_extents(inputs, keys));
  }
  LaunchCycles cycles(const PlanInputs& inputs, const ir::Schedule& schedule,
                      std::span<const std::int64_t> keys) const override {
    return matmul_cycles(inputs.target, work_of(inputs, Schedule::from(schedule)),
                         matmul_extents(inputs, keys));
  }
  std::vector<std::vector<std::int64_t>> key_edges(const PlanInputs& inputs) const override {
    return matmul_edges(inputs);
  }
  std::optional<std::string> misfit(const PlanInputs& inputs,
                                    const ir::Schedule& schedule) const override {
    return reason_against(inputs, Schedule::from(schedule));
  }

 protected:
  using Cost = std::function<double(const Schedule&)>;

  // Those to choose from for a bucket, each of which fits.
  virtual std::vector<Schedule> legal(const PlanInputs& inputs, const ir::Bucket& bucket) const = 0;
  // As misfit().
  virtual std::optional<std::string> reason_against(const PlanInputs& inputs,
                                                    const Schedule& schedule) const = 0;
  virtual MatmulWork work_of(const PlanInputs& inputs, const Schedule& schedule) const = 0;
  // Whether they differ in nothing that makes another kernel worth trying.
  virtual bool same_tile(const Schedule& a, const Schedule& b) const { return a == b; }

  // Seconds at the sizes that a bucket's candidates are ranked at.
  Cost cost(const PlanInputs& inputs, const ir::Bucket& bucket) const {
    return [this, &inputs, typical = matmul_extents(inputs, typical_keys(inputs, bucket))](
               const Schedule& schedule) {
      return matmul_seconds(inputs.target, work_of(inputs, schedule), typical);
    };
  }

  // The cheapest few, best first and each another tile; equal costs keep their order.
  std::vector<ir::Schedule> best_of(const std::vector<Schedule>& found, const Cost& seconds,
                                    std::size_t most = 8) const {
    std::vector<std::pair<double, std::size_t>> ranked;
    for (std::size_t i = 0; i < found.size(); ++i) ranked.emplace_back(seconds(found[i]), i);
    std::sort(ranked.begin(), ranked.end());
    std::vector<const Schedule*> chosen;
    for (const auto& [cost, i] : ranked) {
      const auto same = [&, number = i](const Schedule* other) {
        return same_tile(found[number], *other);
      };
      if (chosen.size() < most && std::none_of(chosen.begin(), chosen.end(), same))
        chosen.push_back(&found[i]);
    }
    std::vector<ir::Schedule> schedules;
    for (const Schedule* schedule : chosen) schedules.push_back(schedule->schedule());
    return schedules;
  }

  // The cheapest few of all, then of each kind: schedules that `kind` gives equal values.
  template <typename Kind>
  std::vector<ir::Schedule> best_of_kinds(const PlanInputs& inputs, const ir::Bucket& bucket,
                                          const Kind& kind) const {
    constexpr std::size_t most_of_a_kind = 4;
    const std::vector<Schedule> found = legal(inputs, bucket);
    const Cost seconds = cost(inputs, bucket);
    std::vector<ir::Schedule> all = best_of(found, seconds);
    std::map<std::invoke_result_t<Kind, const Schedule&>, std::vector<Schedule>> kinds;
    for (const Schedule& schedule : found) kinds[kind(schedule)].push_back(schedule);
    for (const auto& [key, members] : kinds)
      for (ir::Schedule& schedule : best_of(members, seconds, most_of_a_kind))
        if (std::find(all.begin(), all.end(), schedule) == all.end())
          all.push_back(std::move(schedule));
    return all;
  }
};

}  // namespace anydim::codegen_cuda
