// Tries schedules of one program's regions on the data of real calls, inside a process that may be
// lost.
//
// The program itself is run once for every sampled call; what each launch reads is copied aside. A
// candidate then runs on those copies: its results against the reference evaluator at a small call
// (where that is a matter of seconds) and against the incumbent's at every other, between guard
// pages, and only then for time, in turn with the incumbent, over the launches of several layers.
//
// What a launch finds in the caches it finds so only amid a call: weights that other layers' have
// driven out, operands that the launch before has just written. What was found right may therefore
// be timed once more in the place of the program's own kernels, in whole calls.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/backend.h"
#include "ir/tensor.h"
#include "runtime/context.h"
#include "runtime/executable.h"
#include "runtime/kernel_maker.h"
#include "runtime/launch_bench.h"
#include "tuner/compile_ahead.h"
#include "tuner/database.h"
#include "tuner/workload.h"

namespace anydim::tuner {

// Where a region is tried: a launch of it in a call.
struct TrialPoint {
  std::size_t call = 0;
  std::vector<std::int64_t> keys;
  bool operator==(const TrialPoint&) const = default;
};

// A schedule of a region at all of its points. Anything that answers can stand for a device:
// workers, a recorded matrix, a cost model.
struct TrialRequest {
  std::int32_t kernel = 0;  // in Program::kernels
  ir::Schedule schedule;
  std::vector<TrialPoint> points;
  bool operator==(const TrialRequest&) const = default;
};

struct PointTimes {
  double seconds = 0;  // median of one launch
  double incumbent_seconds =
      0;                     // of the schedule that the default table picks there, timed in turn
  double ratio = 0;          // median of seconds / incumbent seconds, pair by pair
  double low = 0, high = 0;  // 95 % interval of the ratio
  std::int64_t samples = 0;
};

struct Trial {
  Outcome outcome = Outcome::Ok;
  std::string detail{};  // where the outcome is not Ok
  ir::KernelResources resources{};
  std::vector<PointTimes> points{};  // one a point where the outcome is Ok
};

struct TrialRules {
  int repetitions = 9;  // pairs of timed passes; a third fewer where passes are long
  // More pairs where the 95 % interval of the ratio is wider than this and does not lie above 1 by
  // as much: up to `most_repetitions`, and `more_seconds` a point.
  double settled_width = 0.02;
  int most_repetitions = 60;
  double more_seconds = 0.05;
  // after three pairs, a point whose every ratio is over this is timed no further
  double hopeless = 1.15;
  double pass_seconds = 200e-6;  // a timed pass repeats short launches until it lasts about as long
  // launches of equal keys that a pass goes through; fewer where they are long
  std::size_t layers = 3;
  // In whole calls: a call is timed until every interval is as narrow as that, or so long.
  double call_seconds = 1;
};

class RegionBench {
 public:
  // `calls`: inputs of the executable, each as Context::run takes them; the first is small, where
  // results are held against the reference evaluator. The executable was made with keep_originals.
  RegionBench(std::shared_ptr<const runtime::Executable> executable,
              std::vector<std::vector<ir::Tensor>> calls);
  ~RegionBench();

  // What each call launches, in order.
  const std::vector<std::vector<LaunchKeys>>& launches() const { return launches_; }

  // The candidate at these points. `schedule` equal to the incumbent's measures A against A.
  // `compiled` is called once the candidate's code is there. Throws Error{Internal} where the
  // incumbent itself is wrong, Error{Inputs} where no call has the point.
  Trial measure(const TrialRequest& request, const TrialRules& rules,
                const std::function<void()>& compiled = {});
  // These candidates are about to be measured: they are compiled beside what is measured until
  // then.
  void expect(std::span<const TrialRequest> requests);
  // Candidates of different regions that `measure` has found right, all at once in the place of the
  // program's kernels, in whole calls; those with the program's own kernels are timed in turn. A
  // trial for each.
  std::vector<Trial> measure_in_calls(std::span<const TrialRequest> requests,
                                      const TrialRules& rules,
                                      const std::function<void()>& compiled = {});

 private:
  using Kernel = runtime::LaunchBench::Kernel;
  struct Captured;
  const ir::Region& region_of(std::int32_t kernel) const;
  const std::vector<Captured>& captured(std::int32_t kernel, std::size_t call);
  // One of the small call, or null where that launches none. Kept as captured() keeps it.
  const Captured* small_launch(std::int32_t kernel);
  // At least one, and at most so many.
  std::vector<const Captured*> launches_at(std::int32_t kernel, const TrialPoint& point,
                                           std::size_t most);
  // A candidate's, which serves all sizes.
  ir::DispatchTable::Entry entry_of(const TrialRequest& request) const;
  const ir::DispatchTable::Entry& incumbent_entry(std::int32_t kernel,
                                                  const std::vector<std::int64_t>& keys) const;
  Kernel incumbent(std::int32_t kernel, const std::vector<std::int64_t>& keys);
  std::vector<ir::Tensor> reference(std::int32_t kernel, const Captured& launch) const;
  // Empty: right.
  std::string check(std::int32_t kernel, const Kernel& code, const Captured& launch,
                    const std::vector<ir::Tensor>& wanted, Outcome& outcome);
  const std::vector<ir::Tensor>& trusted(std::int32_t kernel, const TrialPoint& point,
                                         const Captured& launch);
  PointTimes time(const Kernel& candidate, const Kernel& incumbent,
                  const std::vector<const Captured*>& all, const TrialRules& rules);
  // Mean seconds of a launch of each watched kernel at those keys, in one call.
  using Watched = std::map<std::pair<std::int32_t, std::vector<std::int64_t>>, PointTimes*>;
  std::map<PointTimes*, double> seconds_in_call(std::size_t call, const Watched& watched);
  void time_in_calls(std::size_t call, const Watched& watched,
                     const std::map<std::int32_t, Kernel>& substitutes, const TrialRules& rules);

  std::shared_ptr<const runtime::Executable> executable_;
  runtime::Context context_;
  std::vector<std::vector<ir::Tensor>> calls_;
  std::vector<std::vector<LaunchKeys>> launches_;
  std::unique_ptr<runtime::LaunchBench> bench_;
  runtime::KernelMaker maker_;
  CompileAhead kernels_;
  // What is kept of a kernel between its trials.
  struct Kept {
    std::map<std::size_t, std::vector<Captured>> captured;  // by call
    std::map<std::pair<std::size_t, std::vector<std::int64_t>>, std::vector<ir::Tensor>>
        trusted;                                                   // results by call and keys
    std::map<const ir::DispatchTable::Entry*, Kernel> incumbents;  // by entry of the table
  };
  std::map<std::int32_t, Kept> kept_;  // by kernel
  std::size_t kept_bytes_ = 0;         // of captured data
};

}  // namespace anydim::tuner
