// What the plans of the ways to compute a matmul share.
#pragma once

#include <algorithm>
#include <map>
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

// The cheapest few, best first and each another tile; equal costs keep their order. `same_tile`
// compares two of them.
template <typename Schedule, typename Seconds, typename SameTile>
std::vector<ir::Schedule> best_of(const std::vector<Schedule>& found, const Seconds& seconds,
                                  const SameTile& same_tile, std::size_t most = 8) {
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
template <typename Schedule, typename Seconds, typename SameTile, typename Kind>
std::vector<ir::Schedule> best_of_kinds(const std::vector<Schedule>& found, const Seconds& seconds,
                                        const SameTile& same_tile, const Kind& kind) {
  constexpr std::size_t most_of_a_kind = 4;
  std::vector<ir::Schedule> all = best_of(found, seconds, same_tile);
  std::map<std::invoke_result_t<Kind, const Schedule&>, std::vector<Schedule>> kinds;
  for (const Schedule& schedule : found) kinds[kind(schedule)].push_back(schedule);
  for (const auto& [key, members] : kinds)
    for (ir::Schedule& schedule : best_of(members, seconds, same_tile, most_of_a_kind))
      if (std::find(all.begin(), all.end(), schedule) == all.end())
        all.push_back(std::move(schedule));
  return all;
}

}  // namespace anydim::codegen_cuda
