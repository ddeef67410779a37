#include "tuner/region_bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/region.h"
#include "tuner/device_limits.h"
#include "tuner/launch_work.h"
#include "tuner/observed.h"
#include "tuner/roofline.h"
#include "tuner/statistics.h"
#include "tuner/tolerance.h"

namespace anydim::tuner {

namespace {

using Clock = std::chrono::steady_clock;
using Place = ir::Code::Buffer::Place;

constexpr int pairs_before_judging = 3;
// A pass this long is timed well enough with fewer launches in it, and with fewer pairs: that
// weights come from afar and clocks are coarse matters to short launches.
constexpr double long_pass_seconds = 10e-3;
constexpr int fewest_pairs = 6;  // that give the median a 95 % interval
constexpr std::size_t most_kept_bytes = std::size_t{2} << 30;
// The reference evaluator takes some seconds for as many.
constexpr double most_reference_multiply_adds = 8e9;

// Seconds of two that are timed in turn.
class Pairs {
 public:
  void add(bool ours, double seconds) { (ours ? ours_ : theirs_).push_back(seconds); }
  // What the pairs so far say; all of them are whole.
  PointTimes times() const {
    const std::vector<double> pairwise = ratios(ours_, theirs_);
    const Interval95 interval = median_interval(pairwise);
    return {.seconds = median(ours_),
            .incumbent_seconds = median(theirs_),
            .ratio = median(pairwise),
            .low = interval.low,
            .high = interval.high,
            .samples = static_cast<std::int64_t>(pairwise.size())};
  }
  double least_ratio() const { return std::ranges::min(ratios(ours_, theirs_)); }
  double last() const { return ours_.back() + theirs_.back(); }

 private:
  std::vector<double> ours_, theirs_;
};

// More pairs would say little more, or say it of one that is slower anyway.
bool settled(const PointTimes& told, const TrialRules& rules) {
  return told.high - told.low < rules.settled_width || told.low > 1 + rules.settled_width;
}

// Every launch with the function whose buffers it names.
std::map<const ir::Code::Launch*, const ir::Code*> launch_owners(const ir::Program& program) {
  std::map<const ir::Code::Launch*, const ir::Code*> owners;
  for (const ir::Code& code : program.functions)
    for (const ir::Code::Instruction& instruction : code.instructions)
      if (const auto* launch = std::get_if<ir::Code::Launch>(&instruction))
        owners.emplace(launch, &code);
  return owners;
}

}  // namespace

// What one launch reads, and room for what it writes.
struct RegionBench::Captured {
  std::vector<std::int64_t> extents, keys;
  const ir::Code::Launch* launch = nullptr;
  std::vector<std::unique_ptr<runtime::TrialMemory>> memory;  // of inputs that are no constants,
                                                              // then of results
  std::size_t first_result = 0;                               // in memory
  std::vector<void*> buffers;
  std::vector<std::int32_t> constants;  // of the program, by parameter; -1: an input that is none
  std::vector<std::pair<ir::DType, std::vector<std::int64_t>>> results;

  runtime::TrialLaunch ready() const { return {launch, extents, buffers}; }
  ir::Tensor result(std::size_t i) const {
    return memory[first_result + i]->tensor(results[i].first, results[i].second);
  }
  // What a kernel writes only a part of has before what it has in the reference.
  void clear_results(const ir::Region& region) const {
    for (std::size_t i = first_result; i < memory.size(); ++i) memory[i]->poison();
    if (!ir::writes_part(region)) return;
    runtime::TrialMemory& result = *memory[first_result];
    if (const auto parameter = ir::parameter_in_place(region)) {
      const auto before = std::count(
          constants.begin(), constants.begin() + static_cast<std::ptrdiff_t>(*parameter), -1);
      result.copy_from(memory[static_cast<std::size_t>(before)]->address());
    } else {
      const std::vector<std::byte> zeros(result.bytes());
      result.copy_from(zeros.data());
    }
  }
};

RegionBench::RegionBench(std::shared_ptr<const runtime::Executable> executable,
                         std::vector<std::vector<ir::Tensor>> calls)
    : executable_(std::move(executable)), context_(executable_), calls_(std::move(calls)),
      bench_(executable_->device().open_bench(*executable_)),
      maker_(std::shared_ptr<const ir::Backend>(executable_, &executable_->backend()),
             executable_->device(), nullptr),
      kernels_(maker_) {
  internal_check(executable_->originals().size() == executable_->program().constants.size(),
                 "the executable keeps the model's constants");
  const std::optional<ir::DeviceLimits> told = executable_->backend().limits();
  const ir::DeviceLimits limits = told ? *told : measure_limits(executable_->pool());
  LaunchWorks works(executable_->program());
  for (const std::vector<ir::Tensor>& call : calls_) {
    works.watch(context_, call);
    std::vector<LaunchKeys>& launches = launches_.emplace_back();
    for (const runtime::LaunchRecord& record : context_.launches())
      launches.push_back({record.kernel, record.keys,
                          roofline_seconds(works.at(record.kernel, record.keys), limits)});
  }
}

RegionBench::~RegionBench() = default;

const ir::Region& RegionBench::region_of(std::int32_t kernel) const {
  return executable_->program().kernels.at(static_cast<std::size_t>(kernel)).region;
}

const std::vector<RegionBench::Captured>& RegionBench::captured(std::int32_t kernel,
                                                                std::size_t call) {
  if (kept_bytes_ > most_kept_bytes && !kept_.contains(kernel)) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  Kept& kept = kept_[kernel];
  const auto known = kept.captured.find(call);
  if (known != kept.captured.end()) return known->second;

  const ir::Program& program = executable_->program();
  const ir::Region& region = region_of(kernel);
  const std::map<const ir::Code::Launch*, const ir::Code*> owners = launch_owners(program);
  const std::vector<ir::ValueId>& parameters = region.body.body.parameters;
  const std::vector<ir::ValueId>& results = region.body.body.results;
  std::vector<Captured> all;
  std::map<std::vector<std::int64_t>, std::size_t> counts;
  const auto take = [&](const runtime::LaunchWork& work, std::span<void* const> buffers) {
    if (work.launch->kernel != kernel) return;
    Captured launch;
    launch.launch = work.launch;
    launch.extents.assign(work.extents.begin(), work.extents.end());
    launch.keys = dims_at(region, region.keys, launch.extents);
    constexpr std::size_t most_layers = 4;
    if (++counts[launch.keys] > most_layers) return;
    const auto room_for = [&](const ir::TensorType& type) -> runtime::TrialMemory& {
      const std::vector<std::int64_t> dims = dims_at(region, type.dims, launch.extents);
      const auto bytes = static_cast<std::size_t>(ir::byte_count(type.dtype, dims));
      launch.memory.push_back(bench_->allocate(bytes));
      launch.buffers.push_back(launch.memory.back()->address());
      return *launch.memory.back();
    };
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const ir::Code::Buffer& buffer =
          owners.at(work.launch)->buffers[static_cast<std::size_t>(work.launch->buffers[i])];
      launch.constants.push_back(buffer.place == Place::Constant ? buffer.index : -1);
      if (buffer.place == Place::Constant) {
        launch.buffers.push_back(buffers[i]);
        continue;
      }
      runtime::TrialMemory& memory = room_for(region.body.tensor_type(parameters[i]));
      memory.copy_from(buffers[i]);
      memory.forbid_writing();
    }
    launch.first_result = launch.memory.size();
    for (const ir::ValueId result : results) {
      const ir::TensorType& type = region.body.tensor_type(result);
      launch.results.emplace_back(type.dtype, dims_at(region, type.dims, launch.extents));
      room_for(type);
    }
    all.push_back(std::move(launch));
  };
  const Observing observing(context_.session(), take);
  context_.run(calls_.at(call));
  for (const Captured& launch : all)
    for (const auto& memory : launch.memory) kept_bytes_ += memory->bytes();
  return kept.captured[call] = std::move(all);
}

ir::DispatchTable::Entry RegionBench::entry_of(const TrialRequest& request) const {
  return {.bucket = whole_range(region_of(request.kernel)), .schedule = request.schedule};
}

void RegionBench::expect(std::span<const TrialRequest> requests) {
  for (const TrialRequest& request : requests)
    kernels_.expect(region_of(request.kernel), entry_of(request));
}

const ir::DispatchTable::Entry& RegionBench::incumbent_entry(
    std::int32_t kernel, const std::vector<std::int64_t>& keys) const {
  const ir::DispatchTable& table =
      executable_->program().kernels.at(static_cast<std::size_t>(kernel)).table;
  return table.entries[row_for(table, keys)];
}

RegionBench::Kernel RegionBench::incumbent(std::int32_t kernel,
                                           const std::vector<std::int64_t>& keys) {
  const ir::DispatchTable::Entry& entry = incumbent_entry(kernel, keys);
  Kernel& code = kept_[kernel].incumbents[&entry];
  if (code == nullptr) code = kernels_.make(region_of(kernel), entry);
  return code;
}

std::vector<ir::Tensor> RegionBench::reference(std::int32_t kernel, const Captured& launch) const {
  const ir::Region& region = region_of(kernel);
  // As a program's only binding: that gives symbols values which no input's dims tell.
  ir::Module module;
  module.regions.push_back(region);
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Binding binding{.op = ir::Op::region, .callee = 0, .source = region.name};
  const auto constant_dims = [](const std::vector<std::int64_t>& values) {
    return std::vector<ir::Dim>(values.begin(), values.end());
  };
  std::vector<ir::Tensor> inputs;
  auto memory = launch.memory.begin();
  for (std::size_t i = 0; i < launch.constants.size(); ++i) {
    const ir::TensorType& type = region.body.tensor_type(region.body.body.parameters[i]);
    inputs.push_back(
        launch.constants[i] >= 0
            ? executable_->originals().at(static_cast<std::size_t>(launch.constants[i]))
            : (*memory++)->tensor(type.dtype, dims_at(region, type.dims, launch.extents)));
    binding.operands.push_back(
        main.add_value(fmt::format("input{}", i),
                       ir::TensorType{inputs[i].dtype(), constant_dims(inputs[i].dims())}));
  }
  for (const auto& [dtype, dims] : launch.results)
    binding.results.push_back(main.add_value("result", ir::TensorType{dtype, constant_dims(dims)}));
  binding.dims = constant_dims(launch.extents);
  main.body.parameters = binding.operands;
  main.body.results = binding.results;
  main.body.bindings.push_back(std::move(binding));
  return ir::evaluate(module, main, inputs);
}

std::string RegionBench::check(std::int32_t kernel, const Kernel& code, const Captured& launch,
                               const std::vector<ir::Tensor>& wanted, Outcome& outcome) {
  launch.clear_results(region_of(kernel));
  bool scratch_unharmed = true;
  outcome = Outcome::Wrong;
  try {
    scratch_unharmed = bench_->run(code, launch.ready());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Inputs) throw;
    return fmt::format("on inputs that pass its checks it reported: {}", error.what());
  }
  const bool unharmed =
      std::ranges::all_of(launch.memory, [](const auto& memory) { return memory->unharmed(); });
  if (!unharmed || !scratch_unharmed) {
    outcome = Outcome::OutOfBounds;
    return unharmed ? "it wrote beside its scratch memory" : "it wrote beside a buffer";
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string difference =
        differs(launch.result(i), wanted[i], tolerance_of(region_of(kernel)));
    if (!difference.empty())
      return fmt::format("result {} at keys {}: {}", i, fmt::join(launch.keys, ", "), difference);
  }
  outcome = Outcome::Ok;
  return {};
}

const std::vector<ir::Tensor>& RegionBench::trusted(std::int32_t kernel, const TrialPoint& point,
                                                    const Captured& launch) {
  std::vector<ir::Tensor>& known = kept_[kernel].trusted[{point.call, point.keys}];
  if (!known.empty()) return known;
  const ir::Region& region = region_of(kernel);
  const auto can_evaluate = [&](const Captured& one) {
    return least_work(region, one.extents).multiply_adds <= most_reference_multiply_adds;
  };
  if ((point.call == 0 || small_launch(kernel) == nullptr) && can_evaluate(launch))
    return known = reference(kernel, launch);
  // What the reference confirms at the small call is believed at larger ones.
  const Captured* small = small_launch(kernel);
  if (small != nullptr && can_evaluate(*small)) {
    Outcome outcome = Outcome::Ok;
    const std::string fault = check(kernel, incumbent(kernel, small->keys), *small,
                                    trusted(kernel, {0, small->keys}, *small), outcome);
    if (!fault.empty())
      throw Error(ErrorKind::Internal, "the default schedule is wrong: {}", fault);
  }
  launch.clear_results(region);
  bench_->run(incumbent(kernel, point.keys), launch.ready());
  for (std::size_t i = 0; i < launch.results.size(); ++i) {
    const ir::Tensor result = launch.result(i);  // may lie in memory that the next run writes
    ir::Tensor& copy = known.emplace_back(result.dtype(), result.dims());
    result.copy_to(copy.mutable_bytes());
  }
  return known;
}

PointTimes RegionBench::time(const Kernel& candidate, const Kernel& incumbent,
                             const std::vector<const Captured*>& all, const TrialRules& rules) {
  std::vector<runtime::TrialLaunch> launches;
  for (const Captured* launch : all) launches.push_back(launch->ready());
  double each = 0;
  {
    const auto pass = bench_->pass(incumbent, launches, 1);
    const double first = pass->seconds();
    each = std::min(first, pass->seconds());
  }
  const auto enough =
      static_cast<std::size_t>(std::max(1.0, std::floor(long_pass_seconds / std::max(each, 1e-8))));
  launches.resize(std::min(launches.size(), enough));
  const double once = each * static_cast<double>(launches.size());
  const int pairs =
      once < long_pass_seconds / 2 ? rules.repetitions : std::min(rules.repetitions, fewest_pairs);
  const int times = static_cast<int>(
      std::clamp(std::ceil(rules.pass_seconds / std::max(once, 1e-8)), 1.0, 1000.0));
  const auto ours = bench_->pass(candidate, launches, times);
  const auto theirs = bench_->pass(incumbent, launches, times);
  ours->seconds();
  Pairs timed;
  PointTimes told;
  double more_seconds = 0;
  for (int pair = 0; pair < rules.most_repetitions; ++pair) {
    if (pair >= pairs && (settled(told, rules) || more_seconds > rules.more_seconds)) break;
    // Each goes first as often as the other.
    for (const bool candidates : {pair % 2 != 0, pair % 2 == 0})
      timed.add(candidates, (candidates ? *ours : *theirs).seconds());
    told = timed.times();
    if (pair + 1 == pairs_before_judging && timed.least_ratio() > rules.hopeless) break;
    if (pair >= pairs) more_seconds += timed.last() * times * static_cast<double>(launches.size());
  }
  return told;
}

const RegionBench::Captured* RegionBench::small_launch(std::int32_t kernel) {
  const std::vector<Captured>& launches = captured(kernel, 0);
  return launches.empty() ? nullptr : &launches.front();
}

std::vector<const RegionBench::Captured*> RegionBench::launches_at(std::int32_t kernel,
                                                                   const TrialPoint& point,
                                                                   std::size_t most) {
  std::vector<const Captured*> launches;
  for (const Captured& launch : captured(kernel, point.call))
    if (launch.keys == point.keys && launches.size() < most) launches.push_back(&launch);
  if (launches.empty())
    throw Error(ErrorKind::Inputs, "call {} does not launch {} at keys {}", point.call,
                region_of(kernel).name, fmt::join(point.keys, ", "));
  return launches;
}

Trial RegionBench::measure(const TrialRequest& request, const TrialRules& rules,
                           const std::function<void()>& compiled) {
  const std::int32_t kernel = request.kernel;
  const ir::Region& region = region_of(kernel);
  const Captured* small = small_launch(kernel);
  // The candidate is not blamed for the time that incumbents and wanted results take.
  for (const TrialPoint& point : request.points)
    kernels_.expect(region, incumbent_entry(kernel, point.keys));
  for (const TrialPoint& point : request.points) incumbent(kernel, point.keys);
  if (small != nullptr) trusted(kernel, {0, small->keys}, *small);
  for (const TrialPoint& point : request.points)
    trusted(kernel, point, *launches_at(kernel, point, 1)[0]);
  Trial trial;
  Kernel code;
  try {
    code = kernels_.make(region, entry_of(request));
  } catch (const Error& error) {
    trial.outcome =
        error.kind() == ErrorKind::Resource ? Outcome::OutOfMemory : Outcome::Uncompiled;
    trial.detail = error.what();
    return trial;
  }
  trial.resources = code->resources;
  if (compiled) compiled();
  try {
    if (small != nullptr) {
      trial.detail =
          check(kernel, code, *small, trusted(kernel, {0, small->keys}, *small), trial.outcome);
      if (trial.outcome != Outcome::Ok) return trial;
    }
    for (const TrialPoint& point : request.points) {
      const std::vector<const Captured*> launches = launches_at(kernel, point, rules.layers);
      trial.detail =
          check(kernel, code, *launches[0], trusted(kernel, point, *launches[0]), trial.outcome);
      if (trial.outcome != Outcome::Ok) return trial;
      trial.points.push_back(time(code, incumbent(kernel, point.keys), launches, rules));
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Resource) throw;
    trial = {.outcome = Outcome::OutOfMemory, .detail = error.what(), .resources = trial.resources};
  }
  return trial;
}

std::map<PointTimes*, double> RegionBench::seconds_in_call(std::size_t call,
                                                           const Watched& watched) {
  bench_->make_ready();
  context_.run(calls_.at(call));
  std::map<PointTimes*, std::vector<double>> seconds;
  for (const runtime::LaunchRecord& launch : context_.launches()) {
    const auto found = watched.find({launch.kernel, launch.keys});
    if (found != watched.end() && launch.tasks > 0)
      seconds[found->second].push_back(launch.seconds);
  }
  std::map<PointTimes*, double> means;
  for (const auto& [times, all] : seconds)
    means[times] = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  return means;
}

void RegionBench::time_in_calls(std::size_t call, const Watched& watched,
                                const std::map<std::int32_t, Kernel>& substitutes,
                                const TrialRules& rules) {
  const auto substitute = [&](bool wanted) {
    if (!wanted) return context_.substitute({});
    context_.substitute([&](const runtime::LaunchWork& work) {
      const auto found = substitutes.find(work.launch->kernel);
      return found == substitutes.end() ? nullptr : &found->second;
    });
  };
  struct AsBefore {
    runtime::Context& context;
    ~AsBefore() {
      context.substitute({});
      context.record_launches(false);
    }
  };
  const AsBefore as_before{context_};
  context_.record_launches(true);
  std::map<PointTimes*, Pairs> timed;
  const auto run = [&](bool ours) {
    substitute(ours);
    return seconds_in_call(call, watched);
  };
  run(true);
  const auto begin = Clock::now();
  for (int pair = 0; pair < rules.most_repetitions; ++pair) {
    for (const bool ours : {pair % 2 != 0, pair % 2 == 0})
      for (const auto& [times, seconds] : run(ours)) timed[times].add(ours, seconds);
    bool all_settled = true;
    for (const auto& [times, pairs] : timed) {
      *times = pairs.times();
      all_settled = all_settled && settled(*times, rules);
    }
    const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    if (pair + 1 >= fewest_pairs && (all_settled || spent > rules.call_seconds)) break;
  }
}

std::vector<Trial> RegionBench::measure_in_calls(std::span<const TrialRequest> requests,
                                                 const TrialRules& rules,
                                                 const std::function<void()>& compiled) {
  std::vector<Trial> trials(requests.size());
  expect(requests);
  std::map<std::int32_t, Kernel> substitutes;
  std::map<std::size_t, Watched> watched;  // by call
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const TrialRequest& request = requests[i];
    const Kernel code = kernels_.make(region_of(request.kernel), entry_of(request));
    internal_check(substitutes.emplace(request.kernel, code).second,
                   "a kernel has one candidate in a call");
    trials[i].resources = code->resources;
    trials[i].points.resize(request.points.size());
    for (std::size_t p = 0; p < request.points.size(); ++p)
      watched[request.points[p].call][{request.kernel, request.points[p].keys}] =
          &trials[i].points[p];
  }
  if (compiled) compiled();
  for (const auto& [call, points] : watched) time_in_calls(call, points, substitutes, rules);
  for (std::size_t i = 0; i < requests.size(); ++i)
    for (std::size_t p = 0; p < requests[i].points.size(); ++p)
      if (trials[i].points[p].samples == 0)
        throw Error(ErrorKind::Inputs, "call {} does not launch kernel {} at keys {}",
                    requests[i].points[p].call, requests[i].kernel,
                    fmt::join(requests[i].points[p].keys, ", "));
  return trials;
}

}  // namespace anydim::tuner
