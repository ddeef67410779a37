#include "tuner/region_bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

#include "ir/error.h"
#include "ir/host_functions.h"
#include "ir/reference/evaluate.h"
#include "runtime/cpu_device.h"
#include "tuner/guarded_memory.h"
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
// A thread whose processor is busy with something else comes back within a few turns of the
// scheduler, of some milliseconds each.
constexpr std::chrono::milliseconds most_waited_for_threads{20};
constexpr std::size_t most_kept_bytes = std::size_t{2} << 30;
// The reference evaluator takes some seconds for as many.
constexpr double most_reference_multiply_adds = 8e9;

// Seconds of two that are timed in turn.
class Pairs {
 public:
  void add(bool ours, double seconds) { (ours ? ours_ : theirs_).push_back(seconds); }
  // Of the pairs so far, which are whole.
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
  std::vector<GuardedMemory> memory;  // of inputs that are no constants, then of results
  std::size_t first_result = 0;       // in memory
  std::vector<void*> buffers;
  std::vector<ir::Tensor> inputs;  // as the reference reads them
  std::vector<std::pair<ir::DType, std::vector<std::int64_t>>> results;
};

struct RegionBench::Code {
  Code(const ir::Region& region, const ir::CompiledKernel& kernel)
      : kernel(region, kernel), resources(kernel.resources) {}
  runtime::CpuKernel kernel;
  ir::KernelResources resources;
};

namespace {

// Runs a launch; scratch memory is the caller's, grown where it is too small.
struct Running {
  runtime::WorkerPool& pool;
  const ir::HostFunctions& host;
  std::unique_ptr<GuardedMemory>& scratch;
};

template <typename Code, typename Captured>
ir::KernelError run(const Running& with, const Code& code, const Captured& launch) {
  runtime::CpuCode::Sizes sizes;
  ir::KernelError error;
  if (!code.kernel.code.measure(launch.extents, sizes))
    throw Error(ErrorKind::Inputs, "the work of a launch is too large to count");
  if (sizes.tasks <= 0) return error;
  const std::size_t all = static_cast<std::size_t>(sizes.scratch_stride) *
                          static_cast<std::size_t>(with.pool.threads());
  if (with.scratch == nullptr || with.scratch->bytes() < all)
    with.scratch = std::make_unique<GuardedMemory>(all);
  // Ends where the guard begins.
  std::byte* scratch = with.scratch->data() + (with.scratch->bytes() - all);
  const ir::KernelCall call{launch.buffers.data(), launch.extents.data(), &error, &with.host};
  code.kernel.code.run(with.pool, call, sizes, scratch);
  return error;
}

}  // namespace

RegionBench::RegionBench(std::shared_ptr<const runtime::Executable> executable,
                         std::vector<std::vector<ir::Tensor>> calls)
    : executable_(std::move(executable)), context_(executable_), calls_(std::move(calls)) {
  internal_check(executable_->originals().size() == executable_->program().constants.size(),
                 "the executable keeps the model's constants");
  if (!context_.session().observe({}))
    throw Error(
        ErrorKind::Unsupported,
        "kernels of this device cannot be tried one by one: the host does not see its memory");
  const DeviceLimits limits = measure_limits(executable_->pool());
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
  std::vector<Captured>& all = kept.captured[call];
  std::map<std::vector<std::int64_t>, std::size_t> counts;
  context_.session().observe([&](const runtime::LaunchWork& work, std::span<void* const> buffers) {
    if (work.launch->kernel != kernel) return;
    Captured launch;
    launch.extents.assign(work.extents.begin(), work.extents.end());
    launch.keys = dims_at(region, region.keys, launch.extents);
    constexpr std::size_t most_layers = 4;
    if (++counts[launch.keys] > most_layers) return;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const ir::TensorType& type = region.body.tensor_type(parameters[i]);
      const std::vector<std::int64_t> dims = dims_at(region, type.dims, launch.extents);
      const ir::Code::Buffer& buffer =
          owners.at(work.launch)->buffers[static_cast<std::size_t>(work.launch->buffers[i])];
      if (buffer.place == Place::Constant) {
        launch.buffers.push_back(buffers[i]);
        launch.inputs.push_back(
            executable_->originals().at(static_cast<std::size_t>(buffer.index)));
        continue;
      }
      const auto bytes = static_cast<std::size_t>(ir::byte_count(type.dtype, dims));
      GuardedMemory& memory = launch.memory.emplace_back(bytes);
      if (bytes > 0) std::memcpy(memory.data(), buffers[i], bytes);
      memory.forbid_writing();
      launch.buffers.push_back(memory.data());
      launch.inputs.emplace_back(type.dtype, dims, std::span<const std::byte>(memory.data(), bytes),
                                 nullptr);
    }
    launch.first_result = launch.memory.size();
    for (const ir::ValueId result : results) {
      const ir::TensorType& type = region.body.tensor_type(result);
      launch.results.emplace_back(type.dtype, dims_at(region, type.dims, launch.extents));
      const auto bytes =
          static_cast<std::size_t>(ir::byte_count(type.dtype, launch.results.back().second));
      launch.buffers.push_back(launch.memory.emplace_back(bytes).data());
    }
    all.push_back(std::move(launch));
  });
  context_.run(calls_.at(call));
  context_.session().observe({});
  for (const Captured& launch : all)
    for (const GuardedMemory& memory : launch.memory) kept_bytes_ += memory.bytes();
  return all;
}

std::shared_ptr<const RegionBench::Code> RegionBench::compile(std::int32_t kernel,
                                                              const ir::Bucket& bucket,
                                                              const ir::Schedule& schedule) const {
  const ir::Region& region = region_of(kernel);
  return std::make_shared<const Code>(region,
                                      executable_->backend().compile(region, bucket, schedule));
}

std::shared_ptr<const RegionBench::Code> RegionBench::incumbent(
    std::int32_t kernel, const std::vector<std::int64_t>& keys) {
  const ir::DispatchTable& table =
      executable_->program().kernels.at(static_cast<std::size_t>(kernel)).table;
  const std::size_t row = row_for(table, keys);
  std::shared_ptr<const Code>& code = kept_[kernel].incumbents[row];
  if (code == nullptr)
    code = compile(kernel, table.entries[row].bucket, table.entries[row].schedule);
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
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    binding.operands.push_back(main.add_value(
        fmt::format("input{}", i),
        ir::TensorType{launch.inputs[i].dtype(), constant_dims(launch.inputs[i].dims())}));
  }
  for (const auto& [dtype, dims] : launch.results)
    binding.results.push_back(main.add_value("result", ir::TensorType{dtype, constant_dims(dims)}));
  binding.dims = constant_dims(launch.extents);
  main.body.parameters = binding.operands;
  main.body.results = binding.results;
  main.body.bindings.push_back(std::move(binding));
  return ir::evaluate(module, main, launch.inputs);
}

std::string RegionBench::check(std::int32_t kernel, const Code& code, const Captured& launch,
                               const std::vector<ir::Tensor>& wanted, Outcome& outcome) {
  auto& results = const_cast<std::vector<GuardedMemory>&>(
      launch.memory);  // the launch's own results, written by every run
  for (std::size_t i = launch.first_result; i < results.size(); ++i) results[i].poison();
  // Fresh scratch, so that its marks are of this run alone.
  std::unique_ptr<GuardedMemory> scratch;
  const ir::KernelError error =
      run(Running{executable_->pool(), executable_->host_functions(), scratch}, code, launch);
  for (const GuardedMemory& memory : results) {
    if (!memory.unharmed()) {
      outcome = Outcome::OutOfBounds;
      return "it wrote beside a buffer";
    }
  }
  if (scratch != nullptr && !scratch->unharmed()) {
    outcome = Outcome::OutOfBounds;
    return "it wrote beside its scratch memory";
  }
  outcome = Outcome::Wrong;
  if (error.check >= 0)
    return fmt::format("it reported check {} with {} on inputs that pass it", error.check,
                       error.value);
  const ir::Region& region = region_of(kernel);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const GuardedMemory& memory = results[launch.first_result + i];
    const ir::Tensor got(launch.results[i].first, launch.results[i].second,
                         {memory.data(), memory.bytes()}, nullptr);
    const std::string difference = differs(got, wanted[i], tolerance_of(region));
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
  const std::shared_ptr<const Code> code = incumbent(kernel, point.keys);
  const Captured* small = small_launch(kernel);
  if (small != nullptr && can_evaluate(*small)) {
    Outcome outcome = Outcome::Ok;
    const std::string fault = check(kernel, *incumbent(kernel, small->keys), *small,
                                    trusted(kernel, {0, small->keys}, *small), outcome);
    if (!fault.empty())
      throw Error(ErrorKind::Internal, fmt::format("the default schedule is wrong: {}", fault));
  }
  auto& results = const_cast<std::vector<GuardedMemory>&>(launch.memory);
  for (std::size_t i = launch.first_result; i < results.size(); ++i) results[i].poison();
  run(Running{executable_->pool(), executable_->host_functions(), scratch_}, *code, launch);
  for (std::size_t i = 0; i < launch.results.size(); ++i) {
    ir::Tensor copy(launch.results[i].first, launch.results[i].second);
    const GuardedMemory& memory = results[launch.first_result + i];
    if (memory.bytes() > 0) std::memcpy(copy.mutable_bytes().data(), memory.data(), memory.bytes());
    known.push_back(std::move(copy));
  }
  return known;
}

double RegionBench::pass(const Code& code, const std::vector<const Captured*>& launches,
                         int times) {
  const Running with{executable_->pool(), executable_->host_functions(), scratch_};
  // A kernel of one task lets the other threads fall asleep, and whoever is timed next would pay
  // for it; amid a call they are awake.
  executable_->pool().gather(most_waited_for_threads);
  const auto begin = Clock::now();
  for (int i = 0; i < times; ++i)
    for (const Captured* launch : launches) run(with, code, *launch);
  return std::chrono::duration<double>(Clock::now() - begin).count() /
         (times * static_cast<double>(launches.size()));
}

PointTimes RegionBench::time(const Code& candidate, const Code& incumbent,
                             const std::vector<const Captured*>& all, const TrialRules& rules) {
  const double each = std::min(pass(incumbent, all, 1), pass(incumbent, all, 1));
  const auto enough =
      static_cast<std::size_t>(std::max(1.0, std::floor(long_pass_seconds / std::max(each, 1e-8))));
  const std::vector<const Captured*> launches(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), enough)));
  const double once = each * static_cast<double>(launches.size());
  const int pairs =
      once < long_pass_seconds / 2 ? rules.repetitions : std::min(rules.repetitions, fewest_pairs);
  const int times = static_cast<int>(
      std::clamp(std::ceil(rules.pass_seconds / std::max(once, 1e-8)), 1.0, 1000.0));
  pass(candidate, launches, 1);
  Pairs timed;
  PointTimes told;
  double more_seconds = 0;
  for (int pair = 0; pair < rules.most_repetitions; ++pair) {
    if (pair >= pairs && (settled(told, rules) || more_seconds > rules.more_seconds)) break;
    // Each goes first as often as the other.
    for (const bool ours : {pair % 2 != 0, pair % 2 == 0})
      timed.add(ours, pass(ours ? candidate : incumbent, launches, times));
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
    throw Error(ErrorKind::Inputs,
                fmt::format("call {} does not launch {} at keys {}", point.call,
                            region_of(kernel).name, fmt::join(point.keys, ", ")));
  return launches;
}

Trial RegionBench::measure(const TrialRequest& request, const TrialRules& rules,
                           const std::function<void()>& compiled) {
  const std::int32_t kernel = request.kernel;
  const ir::Region& region = region_of(kernel);
  // The candidate is not blamed for the time that wanted results take.
  const Captured* small = small_launch(kernel);
  if (small != nullptr) trusted(kernel, {0, small->keys}, *small);
  for (const TrialPoint& point : request.points)
    trusted(kernel, point, *launches_at(kernel, point, 1)[0]);
  Trial trial;
  std::shared_ptr<const Code> code;
  try {
    code = compile(kernel, whole_range(region), request.schedule);
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
          check(kernel, *code, *small, trusted(kernel, {0, small->keys}, *small), trial.outcome);
      if (trial.outcome != Outcome::Ok) return trial;
    }
    for (const TrialPoint& point : request.points) {
      const std::vector<const Captured*> launches = launches_at(kernel, point, rules.layers);
      trial.detail =
          check(kernel, *code, *launches[0], trusted(kernel, point, *launches[0]), trial.outcome);
      if (trial.outcome != Outcome::Ok) return trial;
      trial.points.push_back(time(*code, *incumbent(kernel, point.keys), launches, rules));
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Resource) throw;
    trial = {.outcome = Outcome::OutOfMemory, .detail = error.what(), .resources = trial.resources};
  }
  return trial;
}

std::map<PointTimes*, double> RegionBench::seconds_in_call(std::size_t call,
                                                           const Watched& watched) {
  executable_->pool().gather(most_waited_for_threads);
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

void RegionBench::time_in_calls(
    std::size_t call, const Watched& watched,
    const std::map<std::int32_t, std::shared_ptr<const Code>>& substitutes,
    const TrialRules& rules) {
  const auto substitute = [&](bool wanted) {
    if (!wanted) return static_cast<void>(context_.session().substitute({}));
    context_.session().substitute(
        [&](const runtime::LaunchWork& work) -> const runtime::DeviceKernel* {
          const auto found = substitutes.find(work.launch->kernel);
          return found == substitutes.end() ? nullptr : &found->second->kernel;
        });
  };
  struct AsBefore {
    runtime::Context& context;
    ~AsBefore() {
      context.session().substitute({});
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
  std::map<std::int32_t, std::shared_ptr<const Code>> substitutes;
  std::map<std::size_t, Watched> watched;  // by call
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const TrialRequest& request = requests[i];
    const ir::Region& region = region_of(request.kernel);
    const auto code = compile(request.kernel, whole_range(region), request.schedule);
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
        throw Error(ErrorKind::Inputs, fmt::format("call {} does not launch kernel {} at keys {}",
                                                   requests[i].points[p].call, requests[i].kernel,
                                                   fmt::join(requests[i].points[p].keys, ", ")));
  return trials;
}

}  // namespace anydim::tuner
