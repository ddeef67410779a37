// A tuning run as a whole: from sampled calls to a table of kernels for every region.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/backend.h"
#include "ir/program.h"
#include "tuner/database.h"
#include "tuner/measure.h"
#include "tuner/partition.h"
#include "tuner/regret.h"
#include "tuner/search.h"
#include "tuner/workload.h"

namespace anydim::tuner {

// What is tuned. All outlive the run.
struct TuneSubject {
  std::string model;  // file name, for people
  const ModelShape& shape;
  const ir::Program& program;  // compiled by the cost model alone: its tables name the incumbents
  const ir::Backend& backend;
  Environment environment;
};

struct TuneRules {
  double budget_seconds = 600;  // of everything from loading the calls to the regret report
  std::int64_t most_kernels = 24;
  std::size_t points = 6;        // representative calls
  std::size_t unseen_calls = 6;  // for regret; 0: none is reported
  SearchRules search{};
  std::int64_t most_trials = 0;  // candidates that the search tries in this run, whatever is left
                                 // of the budget; 0: no limit
  // try every candidate, whatever is expected of it, until the budget ends
  bool exhaustive = false;
};

struct TuneProgress {
  std::string region, candidate;  // at work
  std::size_t trials = 0, space = 0;
  double best_seconds = 0, default_seconds = 0;  // of a call, as far as known
  double roofline_seconds = 0;  // of a call: what arithmetic and memory allow; 0: not known
  double seconds_left = 0;      // of the budget
};

// How candidates are tried. `prepare`: loads the calls (the first small) and says what they launch;
// null: it needs no calls' data; `measure`: nothing where the run was interrupted.
struct TuneDevice {
  std::function<std::vector<std::vector<LaunchKeys>>(const std::vector<Call>& calls)> prepare{};
  std::function<std::optional<Trial>(const TrialRequest&)> measure;
  bool measured = true;  // false: what it says is predicted
  // How many candidates it likes to be told of at a time. `expect`: these are measured next, in
  // order, and may be compiled meanwhile; `measure_many`: several are tried at once, their trials
  // in order; empty where the run was interrupted. Both may be null.
  std::size_t width = 1;
  std::function<void(const std::vector<TrialRequest>&)> expect{};
  std::function<std::vector<Trial>(const std::vector<TrialRequest>&)> measure_many{};
  // Candidates of different regions that `measure` found right, timed at once in whole calls: a
  // trial for each, or for all what became of a process that one of them ended; nothing where the
  // run was interrupted. Where this is there, tables name no challenger that it has not timed.
  std::function<std::optional<std::vector<Trial>>(const std::vector<TrialRequest>&)>
      measure_in_calls{};
};

struct TuneHooks {
  std::function<void(const TuneProgress&)> progress{};
  std::function<bool()> interrupted{};
};

struct TuneResult {
  bool nothing_to_do = false;  // the database holds a finished run of the same kind
  bool interrupted = false;    // what was measured is kept; tables are not chosen
  ModelRun run;
  std::vector<RegionLatencies> latencies;  // as measured, in the order of the regions tuned
  std::vector<RegionLatencies> refined;    // the same at all sizes of the workload
                                           // (refined_latencies.h): what the tables are chosen from
  std::vector<std::int32_t> kernels;       // of each, in Program::kernels
  Partition partition;
  std::optional<RegretReport> regret;
  // of a call's expected time, in regions that the report covers; the rest had no time left
  double regret_share = 0;
  std::int64_t trials = 0, reused = 0,
               space = 0;  // candidates: tried now, known from before, all there are
  std::vector<std::pair<Outcome, std::int64_t>> failures{};  // by outcome, where there were any
};

// Measures within the budget, chooses tables, and stores both in the database. Measurements are
// stored as they come: nothing is lost by a kill. What the database knows of the same environment
// is not measured again. Throws Error{CommandLine} for a budget of 0 or fewer kernels than regions,
// and what database and device throw.
TuneResult tune(const TuneSubject& subject, const Workload& workload, const Workload& unseen,
                const TuneRules& rules, const TuneDevice& device, Database& database,
                const TuneHooks& hooks);

}  // namespace anydim::tuner
