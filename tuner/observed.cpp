#include "tuner/observed.h"

namespace anydim::tuner {

namespace {

double estimated_work(const TuneSubject& subject, const std::vector<LaunchKeys>& launches) {
  double seconds = 0;
  for (const LaunchKeys& launch : launches) {
    const ir::Program::Kernel& kernel = kernel_of(subject, launch.kernel);
    seconds +=
        subject.backend.estimate(kernel.region, entry_for(kernel.table, launch.keys).schedule, launch.keys, subject.environment.threads);
  }
  return seconds;
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

const ir::DispatchTable::Entry& entry_for(const ir::DispatchTable& table, std::span<const std::int64_t> keys) {
  return table.entries[row_for(table, keys)];
}

Observed observe(const TuneSubject& subject, const Workload& workload, const TuneDevice& device) {
  constexpr std::size_t most_run = 32;
  Observed observed{.workload = workload, .launches = {}, .work = {}};
  const ShapeWalk walk(subject.program);
  if (walk.possible()) {
    for (const Call& call : workload.calls) observed.launches.push_back(walk.launches(subject.shape, call));
  } else {
    std::vector<Call>& calls = observed.workload.calls;
    if (calls.size() > most_run) {
      std::vector<Call> fewer;
      for (std::size_t i = 0; i < most_run; ++i) fewer.push_back(calls[i * calls.size() / most_run]);
      calls = std::move(fewer);
    }
    observed.launches = device.prepare(calls);
    if (observed.launches.size() != calls.size()) return {};  // interrupted
  }
  for (const std::vector<LaunchKeys>& launches : observed.launches) observed.work.push_back(estimated_work(subject, launches));
  return observed;
}

std::vector<Call> calls_to_prepare(const TuneSubject& subject, const Observed& observed, const KeyPoints& points) {
  std::vector<Call> calls{small_call(subject.shape)};
  for (const std::size_t representative : points.representatives) calls.push_back(observed.workload.calls[representative]);
  return calls;
}

TrialRequest request_for(const RegionPoints& points, const ir::Schedule& schedule) {
  TrialRequest request{.kernel = points.kernel, .schedule = schedule, .points = {}};
  for (std::size_t p = 0; p < points.points.size(); ++p) request.points.push_back({points.calls[p] + 1, points.points[p]});
  return request;
}

}  // namespace anydim::tuner
