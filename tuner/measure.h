// Tries candidates where a crash costs nothing: in a worker process, which is started afresh
// whenever it is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/schedule.h"
#include "tuner/region_bench.h"
#include "tuner/worker_process.h"
#include "tuner/workload.h"

namespace anydim::tuner {

using Measure = std::function<Trial(const TrialRequest&)>;

// As workers are asked and answer, and as ranks tell each other. request_of and trial_of throw what
// nlohmann::json throws, and Error{Malformed} for an unknown schedule or outcome.
nlohmann::json to_json(const TrialRequest& request);
TrialRequest request_of(const nlohmann::json& said);
nlohmann::json to_json(const Trial& trial);
Trial trial_of(const nlohmann::json& said);

// Options of compilation as words (api/option_text.h).
using OptionWords = std::vector<std::pair<std::string, std::string>>;

// Where a measuring process finds the model.
struct ModelFile {
  std::string file;
  bool anonymous = false;  // bytes without a name: files that the model names are looked for in
                           // `folder`, not beside it
  std::optional<std::string> folder{};
};
// As a worker is told. model_file_of throws what nlohmann::json throws.
nlohmann::json to_json(const ModelFile& model);
ModelFile model_file_of(const nlohmann::json& said);

struct WorkerSettings {
  std::vector<std::string> command;  // e.g. {"anydim", "worker"}
  std::string log{};  // that standard error of workers is appended to; empty: dropped
  ModelFile model;
  OptionWords options{};      // to compile it with
  std::vector<Call> calls{};  // the first small (RegionBench)
  // text_hash of each kernel's identity: a worker that sees others is refused
  std::vector<std::string> regions{};
  TrialRules rules{};
  double prepare_seconds = 120;  // limits; compiling and running have one each
  double compile_seconds = 20;
  double run_seconds = 20;
  std::int64_t memory_bytes =
      std::int64_t{16}
      << 30;  // address space that a worker may take beyond what its prepared model holds
};

// What came of a case, from how it or its worker ended. `log`: what the worker wrote to standard
// error meanwhile.
Trial classify(const CaseEnd& end, const std::string& log);

class WorkerMeasure {
 public:
  // `stop`: asked several times a second; true: the trial at work is given up.
  WorkerMeasure(WorkerSettings settings, std::function<bool()> stop = {});

  // Starts a worker, which loads the model and runs the calls. Returns what each call launches.
  // Throws Error{Resource} where two new workers in a row cannot.
  std::vector<std::vector<LaunchKeys>> prepare();
  // Prepares where there is no worker. Nothing where the trial was given up.
  std::optional<Trial> operator()(const TrialRequest& request);
  // What is asked for next: the worker compiles it beside what it measures.
  void expect(std::vector<TrialRequest> requests);
  // Candidates of different regions in whole calls (RegionBench::measure_in_calls), a trial for
  // each. Where one of them ended the process, that is what became of all.
  std::optional<std::vector<Trial>> in_calls(const std::vector<TrialRequest>& requests);

  int restarts() const { return worker_.starts() > 0 ? worker_.starts() - 1 : 0; }
  double longest_restart_seconds() const {
    return longest_restart_;
  }  // from the loss of a worker until a new one is ready

 private:
  struct Answer {
    CaseEnd end;
    std::string log;  // of a worker that died
  };
  // Prepares where there is no worker. Nothing where the case was given up.
  std::optional<Answer> ask(nlohmann::json wanted, double longest_seconds);
  std::optional<Answer> ask(const TrialRequest& request);
  std::int64_t log_size() const;
  std::string log_since(std::int64_t position) const;

  WorkerSettings settings_;
  std::function<bool()> stop_;
  WorkerProcess worker_;
  std::int64_t cases_ = 0;
  std::vector<TrialRequest> ahead_;  // of what is expected
  bool stopped_ = false;
  double longest_restart_ = 0;
};

}  // namespace anydim::tuner
