// A model tuned: what `anydim tune`, the C interface and the Python package do.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "api/model.h"
#include "api/tune_settings.h"
#include "api/tuning_run.h"
#include "ir/file_descriptor.h"

namespace anydim {

// As api/load.h has them, from where a measuring process finds the model. Throws what these throw.
ir::Module load_model(const tuner::ModelFile& model);

// Bytes of a model under a name that other processes of this user can open, as long as this lives;
// nothing of it is on a disk.
class ModelBytes {
 public:
  // Files that the model names are looked for in `folder`; absent: a model that names any is
  // refused. Throws Error{Resource}.
  explicit ModelBytes(std::span<const std::byte> bytes, const std::optional<std::string>& folder);
  const tuner::ModelFile& file() const { return file_; }

 private:
  ir::FileDescriptor descriptor_;
  tuner::ModelFile file_;
};

// What to tune for, and calls that are never measured, for the regret: of recorded sizes and calls
// the same.
struct TuneWorkloads {
  tuner::Workload tuned, unseen;
};
// Throws what reading and sampling throw (tuner/workload.h, tuner/distribution.h, tuner/trace.h,
// api/recorded_calls.h), and Error{Inputs} for shapes that do not fit the model.
TuneWorkloads workloads_of(const TuneSettings& settings, const std::vector<InputInfo>& inputs,
                           const tuner::ModelShape& shape);

// The file that a run writes to, options.database. Throws Error{CommandLine} where there is none
// (use_own_database, api/tuning.h, names the user's own).
std::filesystem::path tuning_file(const CompileOptions& options);

class TuningRun {
 public:
  // Loads and compiles the model, by the cost model alone, and forms the calls. `interrupted`
  // (null: never): asked several times a second; true ends the run, and what was measured is kept.
  // `model` outlives this. Throws Error{CommandLine} for settings that do not go together, and what
  // loading, compiling and workloads_of throw.
  TuningRun(const tuner::ModelFile& model, CompileOptions options, TuneSettings settings,
            std::function<bool()> interrupted = {});
  ~TuningRun();
  TuningRun(const TuningRun&) = delete;
  TuningRun& operator=(const TuningRun&) = delete;

  const tuner::TuneSubject& subject() const;
  // Measures in a process of its own (settings.worker). Throws Error{Resource} where that cannot be
  // started, or twice in a row not load the model.
  const tuner::TuneDevice& device() const;
  // As tuner::tune; writes the report where one is asked for.
  tuner::TuneResult tune(
      const tuner::TuneDevice& device, tuner::Database& database,
      const std::function<void(const tuner::TuneProgress&)>& progress = {}) const;
  const tuner::WorkerMeasure* worker() const;  // null: none was started

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Where the run was interrupted or had nothing to do, none is written. Throws Error{Write}.
void write_tune_report(const std::string& file, const tuner::TuneSubject& subject,
                       const tuner::TuneResult& result);

}  // namespace anydim
