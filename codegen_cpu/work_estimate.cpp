#include "codegen_cpu/work_estimate.h"

#include <cmath>

#include "ir/dims/affine.h"
#include "ir/error.h"
#include "ir/region.h"

namespace anydim::codegen_cpu {

namespace {

constexpr double cache_bytes = 1 << 20;
constexpr double launch = 0.15e-6;  // seconds

// Bytes a second that one core gets of those it works on.
double bandwidth_of_core(double bytes) {
  constexpr double cached = 40e9, memory = 12e9;
  return bytes <= cache_bytes ? cached : memory;
}

double access_cycles(Stride stride, int lanes) {
  switch (stride) {
    case Stride::None: return 0.1;
    case Stride::One: return 1;
    case Stride::Other: return 1.5 * lanes;
  }
  internal_error("a stride is one of three");
}

}  // namespace

double cycles_saved_by_tile(int lanes) {
  // A round of shuffles moves each vector once.
  return access_cycles(Stride::Other, lanes) - access_cycles(Stride::One, lanes) - std::log2(lanes);
}

double operation_cycles(const ScalarStep& step) {
  // Of 16 lanes.
  constexpr double division = 8, narrow_division = 30, integer_division = 60, polynomial = 10,
                   rational = 18, in_doubles = 30, of_doubles = 60, power = 90, library = 400;
  const bool is_f64 = step.dtype == ir::DType::F64;
  const double integers = ir::size_of(step.dtype) <= 4 ? narrow_division : integer_division;
  switch (ir::info(step.op()).cost) {
    case ir::Cost::simple: return 0.5;
    case ir::Cost::division: return ir::is_float(step.dtype) ? division : integers;
    case ir::Cost::remainder: return ir::is_float(step.dtype) ? integer_division : integers;
    case ir::Cost::root: return division;
    case ir::Cost::exponential: return is_f64 ? of_doubles : polynomial;
    case ir::Cost::logistic: return is_f64 ? of_doubles + division : polynomial + division;
    case ir::Cost::tangent: return is_f64 ? of_doubles : rational;
    case ir::Cost::error_function: return is_f64 ? library : rational;
    case ir::Cost::periodic: return is_f64 ? library : in_doubles;
    case ir::Cost::power: return is_f64 || !ir::is_float(step.dtype) ? library : power;
  }
  internal_error("an op has one of the costs");
}

Stride stride_along(const Dim& offset, const ir::DimLeaf& variable) {
  if (!offset.mentions(variable)) return Stride::None;
  const auto affine = ir::affine_in(offset, variable);
  return affine && affine->stride.is_constant(1) ? Stride::One : Stride::Other;
}

const ir::TensorType& parameter_type(const PlanInputs& inputs, std::int32_t position) {
  return inputs.region.body.tensor_type(
      inputs.region.body.body.parameters.at(static_cast<std::size_t>(position)));
}

const ir::TensorType& result_type(const PlanInputs& inputs, std::int32_t position) {
  return inputs.region.body.tensor_type(
      inputs.region.body.body.results.at(static_cast<std::size_t>(position)));
}

std::vector<Stride> AccessStrides::of(const PlanInputs& inputs, const ir::ScalarProgram& program,
                                      const std::vector<ir::Store>& stores,
                                      const ir::DimLeaf& variable) {
  const std::lock_guard lock(mutex_);
  const auto key = std::pair(&program, variable);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  std::vector<Stride> strides;
  const auto add = [&](const std::vector<Dim>& index, const ir::TensorType& type) {
    strides.push_back(
        stride_along(ir::linear_offset(index, type.dims, inputs.form.symbols), variable));
  };
  for (const ScalarStep& step : program.steps)
    if (const auto* load = std::get_if<ir::step::Load>(&step.kind))
      add(load->index, parameter_type(inputs, load->buffer));
  for (const ir::Store& store : stores) add(store.index, result_type(inputs, store.output));
  return known_.emplace(key, std::move(strides)).first->second;
}

double point_cycles(const PlanInputs& inputs, const ir::ScalarProgram& program,
                    const std::vector<ir::Store>& stores, const ir::DimLeaf& variable, int lanes,
                    Guards guards) {
  const std::vector<Stride> strides = inputs.strides.of(inputs, program, stores, variable);
  auto stride = strides.begin();
  double cycles = 1;
  for (const ScalarStep& step : program.steps) {
    if (step.is<ir::step::Load>()) cycles += access_cycles(*stride++, lanes);
    if (step.is<ir::step::Scratch>()) cycles += 1;
    if (step.is<ir::step::Apply>()) cycles += operation_cycles(step);
    if (step.is<ir::step::CheckedIndex>() ||
        (step.is<ir::step::Guarded>() && guards == Guards::Asked))
      cycles += 2;
  }
  for (; stride != strides.end(); ++stride) cycles += access_cycles(*stride, lanes);
  return cycles / lanes;
}

int contiguity(const PlanInputs& inputs, const ir::ScalarProgram& program,
               const std::vector<ir::Store>& stores, const ir::DimLeaf& variable) {
  int balance = 0;
  for (const Stride stride : inputs.strides.of(inputs, program, stores, variable))
    balance += stride == Stride::One ? 1 : stride == Stride::Other ? -1 : 0;
  return balance;
}

std::int64_t extent_at(const PlanInputs& inputs, const Dim& extent,
                       std::span<const std::int64_t> keys) {
  if (const auto known = ir::known_at(inputs.region, extent, keys)) return *known;
  internal_error("every varying extent of a product or of attention is a key of its region");
}

int natural_lanes(const Target& target, const ir::ScalarProgram& program) {
  std::size_t widest = 1;
  for (const ScalarStep& step : program.steps) {
    if (step.is<ir::step::Extent>() || step.is<ir::step::CheckedIndex>()) continue;
    widest = std::max(widest, ir::size_of(step.dtype));
  }
  // Halves are worked on as floats; wider types take two registers.
  const std::size_t bytes = widest == 1 ? 1 : 4;
  return target.lanes(static_cast<int>(bytes));
}

double launch_seconds(const PlanInputs& inputs, double cycles, double bytes, double tasks) {
  constexpr double frequency = 3.0e9;
  if (inputs.shared != nullptr) {
    const double whole = std::max(1.0, static_cast<double>(inputs.shared->tasks));
    return shared_seconds(inputs, cycles / frequency * std::ceil(whole / inputs.threads) / whole,
                          tasks);
  }
  const double workers = std::max(1.0, std::min<double>(inputs.threads, tasks));
  const double bandwidth = bandwidth_of_core(bytes / workers);
  const double alone = launch + std::max(cycles / frequency, bytes / bandwidth);
  if (workers == 1) return alone;
  return std::min(alone, launch + joining_seconds(tasks, inputs.threads) +
                             std::max(cycles / frequency, bytes / bandwidth) / workers);
}

double joining_seconds(double tasks, int threads) {
  constexpr double fork_and_join = 1.0e-6;
  return tasks > 1 && threads > 1 ? fork_and_join : 0;
}

double shared_seconds(const PlanInputs& inputs, double busiest, double tasks) {
  if (inputs.shared == nullptr) return busiest + joining_seconds(tasks, inputs.threads);
  const ir::SharedLaunch& shared = *inputs.shared;
  const double workers =
      std::clamp(static_cast<double>(shared.tasks), 1.0, static_cast<double>(inputs.threads));
  const double of_core = shared.bytes / workers;
  double bandwidth = workers * bandwidth_of_core(of_core);
  if (of_core > cache_bytes) bandwidth = std::min(bandwidth, shared.memory_bandwidth);
  return launch + joining_seconds(workers, inputs.threads) +
         std::max(busiest, shared.bytes / bandwidth);
}

double points_at(const PlanInputs& inputs, std::span<const ir::Iteration> space,
                 std::span<const std::int64_t> keys) {
  return ir::estimated_at(inputs.region, ir::points_of(space), keys);
}

}  // namespace anydim::codegen_cpu
