#include "tuner/observed.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "ir/error.h"

namespace anydim::tuner {

namespace {

double estimated_work(const TuneSubject& subject, const std::vector<LaunchKeys>& launches) {
  double seconds = 0;
  for (const LaunchKeys& launch : launches) {
    const ir::Program::Kernel& kernel = kernel_of(subject, launch.kernel);
    seconds += launch.times * subject.backend.estimate(
                                  kernel.region, entry_for(kernel.table, launch.keys).schedule,
                                  launch.keys, subject.environment.threads);
  }
  return seconds;
}

std::vector<Call> calls_to_run(const Workload& workload) {
  constexpr std::size_t most_run = 32;
  std::vector<Call> all, fewer;
  std::ranges::copy_if(workload.calls, std::back_inserter(all),
                       [](const Call& call) { return !call.inputs.empty(); });
  if (all.empty()) all = workload.calls;
  for (std::size_t i = 0; i < std::min(most_run, all.size()); ++i)
    fewer.push_back(all[i * all.size() / std::min(most_run, all.size())]);
  for (Call& call : fewer) call.found.clear();
  return fewer;
}

std::map<std::string, std::int32_t> kernels_by_region(const ir::Program& program) {
  std::map<std::string, std::int32_t> kernels;
  const std::vector<std::string> fingerprints = region_fingerprints(program);
  for (std::size_t k = 0; k < fingerprints.size(); ++k)
    kernels.emplace(fingerprints[k], static_cast<std::int32_t>(k));
  return kernels;
}

std::vector<LaunchKeys> found_launches(const ir::Program& program, const Call& call,
                                       const std::map<std::string, std::int32_t>& kernels) {
  std::vector<LaunchKeys> launches;
  for (const FoundLaunch& found : call.found) {
    const auto kernel = kernels.find(found.region);
    if (kernel == kernels.end() ||
        program.kernels[static_cast<std::size_t>(kernel->second)].region.keys.size() !=
            found.keys.size())
      throw Error(ErrorKind::Malformed,
                  "the trace's calls launched regions that this program does not have: it was "
                  "recorded by another version of Anydim or with other options; record it again");
    launches.push_back({.kernel = kernel->second, .keys = found.keys, .times = found.times});
  }
  return launches;
}

// A call of the least sizes that still have something to compute, where results are held against
// the reference evaluator.
Call small_call(const ModelShape& shape) {
  constexpr std::int64_t small = 3;
  Call call;
  const std::vector<std::string> names = shape.symbol_names();
  for (const std::string& name : names) {
    const ir::SymbolInfo* known = shape.symbols.find(name);
    const ir::SymbolInfo info = known == nullptr ? ir::SymbolInfo{} : *known;
    const std::int64_t rounded = (std::clamp(small, info.low, info.high) + info.multiple - 1) /
                                 info.multiple * info.multiple;
    call.values.push_back(rounded <= info.high ? rounded : info.low);
  }
  if (!shape.packing) return call;
  // Sequences of several lengths, the first the longest.
  const std::vector<ir::Dim>& mask = shape.inputs.at(shape.packing->mask).dims;
  const auto value = [&](const ir::Dim& dim) {
    return dim.evaluate([&](const ir::DimLeaf& leaf) {
      return call.values.at(
          static_cast<std::size_t>(std::ranges::find(names, leaf.symbol) - names.begin()));
    });
  };
  const std::int64_t batch = value(mask.at(0)), length = value(mask.at(1));
  for (std::int64_t row = 0; row < batch; ++row)
    call.lengths.push_back(std::max<std::int64_t>(1, length - row));
  return call;
}

}  // namespace

const ir::Program::Kernel& kernel_of(const TuneSubject& subject, std::int32_t kernel) {
  return subject.program.kernels.at(static_cast<std::size_t>(kernel));
}

std::size_t row_for(const ir::DispatchTable& table, std::span<const std::int64_t> keys) {
  std::size_t row = 0;
  while (row + 1 < table.entries.size() && !table.entries[row].bucket.contains(keys)) ++row;
  return row;
}

const ir::DispatchTable::Entry& entry_for(const ir::DispatchTable& table,
                                          std::span<const std::int64_t> keys) {
  return table.entries[row_for(table, keys)];
}

Observed observe(const TuneSubject& subject, const Workload& workload, const TuneDevice& device) {
  Observed observed{
      .workload = workload, .runnable = workload.calls.size(), .launches = {}, .work = {}};
  std::vector<Call>& calls = observed.workload.calls;
  if (shapes_decide_launches(subject.program)) {
    const ShapeWalk walk(subject.program);
    for (const Call& call : calls) observed.launches.push_back(walk.launches(subject.shape, call));
  } else {
    std::vector<Call> traced;
    std::ranges::copy_if(calls, std::back_inserter(traced),
                         [](const Call& call) { return !call.found.empty(); });
    calls.clear();
    if (device.prepare) {
      calls = calls_to_run(workload);
      observed.launches = device.prepare(calls);
      if (observed.launches.size() != calls.size()) return {};  // interrupted
    } else if (traced.empty()) {
      throw Error(ErrorKind::CommandLine,
                  "values that the model computes decide what it launches, which only a run tells: "
                  "record calls with `anydim run --record FILE` and tune with --trace FILE");
    }
    observed.runnable = device.prepare ? calls.size() : traced.size();
    if (!traced.empty())
      for (Call& call : calls) call.weight = 0;
    const std::map<std::string, std::int32_t> kernels = kernels_by_region(subject.program);
    for (Call& call : traced) {
      observed.launches.push_back(found_launches(subject.program, call, kernels));
      calls.push_back(std::move(call));
    }
  }
  if (std::ranges::none_of(calls, [](const Call& call) { return call.weight > 0; }))
    for (Call& call : calls) call.weight = 1;
  for (const std::vector<LaunchKeys>& launches : observed.launches)
    observed.work.push_back(estimated_work(subject, launches));
  return observed;
}

std::vector<Call> calls_to_prepare(const TuneSubject& subject, const Observed& observed,
                                   const KeyPoints& points) {
  // A call of values that were met says more of a program that they decide than the least sizes
  // with values that are made up.
  const Call& least = observed.workload.calls[points.representatives.front()];
  std::vector<Call> calls{least.inputs.empty() ? small_call(subject.shape) : least};
  for (const std::size_t representative : points.representatives)
    calls.push_back(observed.workload.calls[representative]);
  return calls;
}

TrialRequest request_for(const RegionPoints& points, const ir::Schedule& schedule) {
  TrialRequest request{.kernel = points.kernel, .schedule = schedule, .points = {}};
  for (std::size_t p = 0; p < points.points.size(); ++p)
    request.points.push_back({points.calls[p] + 1, points.points[p]});
  return request;
}

}  // namespace anydim::tuner
