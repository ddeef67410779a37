#include "api/thread_scaling.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/error.h"
#include "passes/choose_buckets.h"
#include "tuner/observed.h"
#include "tuner/roofline.h"

namespace anydim {

namespace {

using ir::DispatchTable;

// The program's kernels as they are chosen for one number of threads.
class Planned {
 public:
  Planned(const ir::Program& program, CompileOptions options, int threads)
      : program_(program), threads_(threads) {
    options.threads = threads;
    backend_ = make_target(options).backend;
    pipeline_.threads = threads;
  }

  LaunchAtThreads at(const runtime::LaunchRecord& launch, double memory_bandwidth) {
    const ir::Region& region = program_.kernels[static_cast<std::size_t>(launch.kernel)].region;
    const DispatchTable::Entry& entry = entry_for(launch);
    LaunchAtThreads planned;
    planned.schedule = to_string(entry.schedule);
    planned.tasks = runtime::value_in_region(tasks_of(region, entry), region, launch.extents);
    planned.tasks = std::max<std::int64_t>(planned.tasks, 0);
    if (planned.tasks == 0) return planned;
    planned.seconds =
        backend_->estimate_shared(region, entry.schedule, launch.keys,
                                  {.threads = threads_,
                                   .tasks = planned.tasks,
                                   .bytes = tuner::least_work(region, launch.extents).bytes,
                                   .memory_bandwidth = memory_bandwidth});
    return planned;
  }

 private:
  const DispatchTable::Entry& entry_for(const runtime::LaunchRecord& launch) {
    std::optional<DispatchTable>& table = tables_[launch.kernel];
    if (!table) {
      const passes::PassContext context{.options = pipeline_, .backend = backend_.get()};
      table = passes::choose_table(program_.kernels[static_cast<std::size_t>(launch.kernel)].region,
                                   program_.policies, context);
    }
    return tuner::entry_for(*table, launch.keys);
  }

  const ir::Dim& tasks_of(const ir::Region& region, const DispatchTable::Entry& entry) {
    std::optional<ir::Dim>& tasks = tasks_[&entry];
    if (!tasks) tasks = backend_->compile(region, entry.compiled_for(), entry.schedule).tasks;
    return *tasks;
  }

  const ir::Program& program_;
  int threads_;
  std::shared_ptr<const ir::Backend> backend_;
  passes::PipelineOptions pipeline_;
  std::map<std::int32_t, std::optional<DispatchTable>> tables_;  // by kernel, never changed
  std::map<const DispatchTable::Entry*, std::optional<ir::Dim>> tasks_;
};

CallAtThreads plan_call(const ir::Program& program,
                        const std::vector<runtime::LaunchRecord>& launches,
                        const CompileOptions& options, int threads, double memory_bandwidth) {
  Planned planned(program, options, threads);
  CallAtThreads call;
  call.threads = threads;
  for (const runtime::LaunchRecord& launch : launches) {
    call.launches.push_back(planned.at(launch, memory_bandwidth));
    call.seconds += call.launches.back().seconds;
  }
  return call;
}

double efficiency(double alone, double together, int threads) {
  return together > 0 ? alone / together / threads : 0;
}

}  // namespace

std::vector<CallAtThreads> scale_launches(const runtime::Executable& executable,
                                          const std::vector<runtime::LaunchRecord>& launches,
                                          CompileOptions options,
                                          const ThreadScalingOptions& scaling) {
  if (options.device != DeviceKind::Cpu)
    throw Error(
        ErrorKind::CommandLine,
        "the model is compiled for a GPU, whose launches do not spread over the processor's "
        "threads: ask with --device cpu");
  const ir::Program& program = executable.program();
  const CallAtThreads alone = plan_call(program, launches, options, 1, scaling.memory_bandwidth);
  std::vector<CallAtThreads> calls;
  for (const int threads : scaling.threads) {
    CallAtThreads& call = calls.emplace_back(
        threads == 1 ? alone
                     : plan_call(program, launches, options, threads, scaling.memory_bandwidth));
    for (std::size_t i = 0; i < call.launches.size(); ++i)
      call.launches[i].efficiency =
          efficiency(alone.launches[i].seconds, call.launches[i].seconds, threads);
    call.efficiency = efficiency(alone.seconds, call.seconds, threads);
  }
  return calls;
}

}  // namespace anydim
