// What sampled calls launch, and how a launch is asked for on a device.
#pragma once

#include <span>
#include <vector>

#include "tuner/tune.h"

namespace anydim::tuner {

const ir::Program::Kernel& kernel_of(const TuneSubject& subject, std::int32_t kernel);
// The row of the table that serves these keys.
std::size_t row_for(const ir::DispatchTable& table, std::span<const std::int64_t> keys);
const ir::DispatchTable::Entry& entry_for(const ir::DispatchTable& table,
                                          std::span<const std::int64_t> keys);

// Launches by arithmetic where shapes decide. Else by running calls: those whose inputs were
// recorded where there are any, and otherwise a few with inputs that are made up. Where a trace
// tells what its calls launched, these weigh, and the calls that were run only show where a region
// can be measured.
struct Observed {
  Workload workload;         // calls that can be made, then those that only a trace tells of
  std::size_t runnable = 0;  // how many can be made
  std::vector<std::vector<LaunchKeys>> launches;  // one a call; empty: interrupted
  std::vector<double> work;                       // seconds of each call by the cost model
};
// Throws Error{Malformed} where the trace's launches are of other regions than the program's.
Observed observe(const TuneSubject& subject, const Workload& workload, const TuneDevice& device);

// The small call, then the representatives: what TuneDevice::prepare takes.
std::vector<Call> calls_to_prepare(const TuneSubject& subject, const Observed& observed,
                                   const KeyPoints& points);
TrialRequest request_for(const RegionPoints& points, const ir::Schedule& schedule);

}  // namespace anydim::tuner
