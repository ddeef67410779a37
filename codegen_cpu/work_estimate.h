// How much work a scalar program is, for choosing schedules and for cost models. Plain counting;
// seconds are for ordering candidates.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "codegen_cpu/kernel_kind.h"

namespace anydim::codegen_cpu {

// Change of an access from one value of a leaf to the next.
enum class Stride { None, One, Other };
Stride stride_along(const ir::Dim& offset, const ir::DimLeaf& variable,
                    const ir::SymbolTable& symbols);

// Strides of one form's accesses, each found once, as costs are asked for many shapes. May be
// shared by threads.
class AccessStrides {
 public:
  // Of the loads of `program`, which is the form's own, then of its stores.
  std::vector<Stride> of(const PlanInputs& inputs, const ir::ScalarProgram& program,
                         const std::vector<ir::Store>& stores, const ir::DimLeaf& variable);

 private:
  std::mutex mutex_;
  std::map<std::pair<const ir::ScalarProgram*, ir::DimLeaf>, std::vector<Stride>> known_;
};

// Row-major offset of a load, over the form's symbols and loop variables.
ir::Dim load_offset(const PlanInputs& inputs, const ir::ScalarStep& load);
ir::Dim store_offset(const PlanInputs& inputs, const ir::Store& store);
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
// Bytes that one launch must read and write at least: every buffer the programs touch, once, but no
// more than `points` elements of each.
double traffic_bytes(const PlanInputs& inputs, double points, std::span<const std::int64_t> keys);
// Lanes that suit the program's element types.
int natural_lanes(const Target& target, const ir::ScalarProgram& program);

// Cycles that a vector of a load saves by being transposed in registers instead of gathered.
double cycles_saved_by_tile(int lanes);

// Schedules by grain, and for more than two threads the same with smaller tasks, which change no
// result: grains are multiples of a schedule's vectors.
std::vector<ir::Schedule> with_finer_grains(const PlanInputs& inputs,
                                            std::vector<ir::Schedule> schedules);

// Seconds for `cycles` of arithmetic and `bytes` of traffic in `tasks` tasks on the inputs'
// threads, the launch included; where inputs.shared is asked for, its tasks and bytes instead.
double launch_seconds(const PlanInputs& inputs, double cycles, double bytes, double tasks);
// Seconds of a launch whose busiest worker computes for `busiest` seconds, traffic left out: with
// what inputs.shared asks for, if anything.
double shared_seconds(const PlanInputs& inputs, double busiest);

}  // namespace anydim::codegen_cpu
