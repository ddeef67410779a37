// How much work a scalar program is, for choosing schedules and for cost models. Plain counting;
// seconds are for ordering candidates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "codegen_cpu/kernel_kind.h"

namespace anydim::codegen_cpu {

// Change of an access from one value of a leaf to the next; `offset` is its ir::linear_offset().
enum class Stride { None, One, Other };
Stride stride_along(const ir::Dim& offset, const ir::DimLeaf& variable);

// Strides of one form's accesses, each found once, as costs are asked for many shapes. May be
// shared by threads.
class AccessStrides {
 public:
  // Strides of the loads of `program`, which is the form's own, then of its stores.
  std::vector<Stride> of(const PlanInputs& inputs, const ir::ScalarProgram& program,
                         const std::vector<ir::Store>& stores, const ir::DimLeaf& variable);

 private:
  std::mutex mutex_;
  std::map<std::pair<const ir::ScalarProgram*, ir::DimLeaf>, std::vector<Stride>> known_;
};

const ir::TensorType& parameter_type(const PlanInputs& inputs, std::int32_t position);
const ir::TensorType& result_type(const PlanInputs& inputs, std::int32_t position);

// Cycles of one vector operation of an Apply step, roughly: throughput on recent processors.
double operation_cycles(const ir::ScalarStep& step);

// Whether the conditions of Guarded steps are asked at each point, or at few enough to be left out
// of the work (ir/loops/row_interior.h).
enum class Guards : std::uint8_t { Asked, Rare };

// Work of one point of a program whose lanes run along `variable`, in cycles of one core:
// arithmetic spread over `lanes`, accesses that aren't contiguous one by one.
double point_cycles(const PlanInputs& inputs, const ir::ScalarProgram& program,
                    const std::vector<ir::Store>& stores, const ir::DimLeaf& variable, int lanes,
                    Guards guards = Guards::Asked);
// Accesses (loads and stores) that are contiguous along the variable, less those that are strided.
int contiguity(const PlanInputs& inputs, const ir::ScalarProgram& program,
               const std::vector<ir::Store>& stores, const ir::DimLeaf& variable);
// Lanes that suit the program's element types.
int natural_lanes(const Target& target, const ir::ScalarProgram& program);

// Of one tile register, from the instructions' rates (Intel's optimisation manual).
inline constexpr double tile_multiply_cycles = 16, tile_load_cycles = 8, tile_store_cycles = 16;

// Cycles that a vector of a load saves by being transposed in registers instead of gathered.
double cycles_saved_by_tile(int lanes);

// Schedules by grain, and for more than two threads the same with smaller tasks, which change no
// result: grains are multiples of a schedule's vectors.
template <typename Schedule>
std::vector<Schedule> with_finer_grains(const PlanInputs& inputs, std::vector<Schedule> schedules) {
  if (inputs.threads <= 2) return schedules;
  constexpr std::int64_t least = 64;
  const std::vector<Schedule> coarse = schedules;
  for (const std::int64_t finer : {4, 16}) {
    for (Schedule schedule : coarse) {
      const std::int64_t vectors = schedule.vector * schedule.unroll;
      schedule.grain = schedule.grain / finer / vectors * vectors;
      if (schedule.grain >= std::max(least, vectors)) schedules.push_back(schedule);
    }
  }
  return schedules;
}

// Seconds for `cycles` of arithmetic and `bytes` of traffic in `tasks` tasks on the inputs'
// threads, the launch included; where inputs.shared is asked for, its tasks and bytes instead.
double launch_seconds(const PlanInputs& inputs, double cycles, double bytes, double tasks);
// Seconds of a launch in `tasks` tasks whose busiest worker computes for `busiest` seconds, traffic
// left out: with what inputs.shared asks for, if anything.
double shared_seconds(const PlanInputs& inputs, double busiest, double tasks);
// What it takes to have other threads work on a launch of so many tasks and wait for them.
double joining_seconds(double tasks, int threads);

}  // namespace anydim::codegen_cpu
