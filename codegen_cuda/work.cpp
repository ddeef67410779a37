#include "codegen_cuda/work.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/error.h"
#include "ir/loops/segment_rows.h"
#include "ir/region.h"

namespace anydim::codegen_cuda {

double operation_clocks(const ScalarStep& step) {
  const bool is_f64 = step.dtype == ir::DType::F64;
  const double slow = is_f64 ? 32 : 1;  // most parts have few f64 units
  switch (ir::info(step.op()).cost) {
    case ir::Cost::simple: return is_f64 ? 16 : 1;
    case ir::Cost::division:
    case ir::Cost::remainder: return ir::is_float(step.dtype) ? 17 * slow : 40;
    case ir::Cost::root:
    case ir::Cost::exponential: return 17 * slow;
    case ir::Cost::logistic: return 34 * slow;
    case ir::Cost::tangent: return 31 * slow;
    case ir::Cost::error_function: return 28 * slow;
    case ir::Cost::periodic: return 40 * slow;
    case ir::Cost::power: return 80 * slow;
  }
  internal_error("an op has one of the costs");
}

double points_at(const PlanInputs& inputs, std::span<const ir::Iteration> space,
                 std::span<const std::int64_t> keys) {
  return ir::estimated_at(inputs.region, ir::points_of(space), keys);
}

double traffic_bytes(const PlanInputs& inputs, double points) {
  return ir::traffic_bytes(inputs.region, points, {});
}

namespace {

constexpr double lanes = 128;       // of a multiprocessor
constexpr double l2_speedup = 2.5;  // bandwidth of the L2 cache over the memory's

double step_clocks(const ScalarStep& step, double together) {
  // Addresses and loads, by a thread, serve all its neighbours.
  constexpr double load = 4, check = 4;
  if (step.is<ir::step::Apply>()) return operation_clocks(step);
  if (step.is<ir::step::Load>()) return load / together;
  return step.is<ir::step::CheckedIndex>() || step.is<ir::step::Guarded>() ? check : 0;
}

}  // namespace

double point_clocks(const ir::ScalarProgram& program, double together) {
  double clocks = 1;
  for (const ScalarStep& step : program.steps) clocks += step_clocks(step, together);
  return clocks;
}

std::int64_t vector_elements(const PlanInputs& inputs) {
  std::int64_t widest = 1, narrowest = 8, together = 0;
  const auto add = [&](ir::ValueId value) {
    const auto bytes =
        static_cast<std::int64_t>(ir::size_of(inputs.region.body.tensor_type(value).dtype));
    widest = std::max(widest, bytes);
    narrowest = std::min(narrowest, bytes);
    together += bytes;
  };
  for (const ir::ValueId value : inputs.region.body.body.parameters) add(value);
  for (const ir::ValueId value : inputs.region.body.body.results) add(value);
  const std::int64_t most = std::min({16 / narrowest, 32 / widest, 256 / together});
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(most, 1))));
}

std::vector<double> extents_at(const PlanInputs& inputs, std::span<const ir::Iteration> space,
                               std::span<const std::int64_t> keys) {
  constexpr double unknown = -1;
  std::vector<double> extents;
  double rest = points_at(inputs, space, keys);
  for (const ir::Iteration& loop : space) {
    extents.push_back(ir::estimated_at(inputs.region, loop.extent, keys, unknown));
    if (extents.back() > 0) rest /= extents.back();
  }
  const std::size_t outermost =
      static_cast<std::size_t>(std::ranges::find(extents, unknown) - extents.begin());
  for (std::size_t i = extents.size(); i-- > 0;) {
    if (extents[i] != unknown) continue;
    extents[i] = i == outermost ? rest : std::min<double>(rest, ir::typical_segment_rows);
    if (extents[i] > 0) rest /= extents[i];
  }
  return extents;
}

ir::DeviceLimits limits_of(const CudaTarget& target) {
  const double clocks = target.clock * target.multiprocessors;
  const double tensor = target.tensor_flops / 2 * clocks;
  return {.multiply_adds = target.tf32 ? std::max(tensor / 2, lanes * clocks) : lanes * clocks,
          .narrow_multiply_adds = std::max(tensor, lanes * clocks),
          .reads = {{static_cast<double>(target.l2_bytes), target.memory_bandwidth * l2_speedup},
                    {static_cast<double>(target.memory_gb) * 1e9, target.memory_bandwidth}}};
}

double launch_seconds(const CudaTarget& target, const StreamingWork& work) {
  // threads of a multiprocessor that keep its share of the bandwidth busy
  constexpr double saturating = 1024;
  const double at_once = std::max(1.0, static_cast<double>(target.multiprocessors) * work.resident);
  const double waves = std::max(1.0, std::ceil(work.blocks / at_once));
  const double busy =
      std::clamp(work.blocks * work.threads / (target.multiprocessors * saturating), 0.02, 1.0);
  const bool stays = work.bytes <= static_cast<double>(target.l2_bytes) * 0.6;
  const double moving =
      std::max(std::max(work.cached, work.bytes) / (target.memory_bandwidth * l2_speedup),
               stays ? 0 : work.bytes / target.memory_bandwidth) /
      busy;
  // Blocks of the last wave take as long as those of a full one; few are spread over all.
  const double multiprocessors =
      std::clamp(work.blocks / waves, 1.0, static_cast<double>(target.multiprocessors));
  const double computing = work.clocks / (lanes * target.clock * multiprocessors);
  return target.costs.start_seconds + std::max(moving, computing);
}

LaunchCycles launch_cycles(const CudaTarget& target, const StreamingWork& work) {
  const double multiprocessors = target.multiprocessors;
  return {.issue = work.clocks / (lanes * multiprocessors),
          .memory = (work.cached > 0 ? work.cached : work.bytes) /
                    (multiprocessors * target.costs.l2_bytes_per_clock)};
}

}  // namespace anydim::codegen_cuda
