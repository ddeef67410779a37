#include "python/src/tuning.h"

#include <utility>

#include "api/recorded_calls.h"
#include "api/tune_model.h"
#include "api/tune_text.h"
#include "api/tuning_worker.h"
#include "python/src/arrays.h"
#include "python/src/interpreter.h"
#include "python/src/interruptible.h"
#include "python/src/names.h"

namespace nb = nanobind;

namespace anydim::python {

namespace {

nb::dict told(const tuner::TuneProgress& progress) {
  nb::dict dict;
  dict["region"] = progress.region;
  dict["candidate"] = progress.candidate;
  dict["trials"] = progress.trials;
  dict["space"] = progress.space;
  dict["best_seconds"] = progress.best_seconds;
  dict["default_seconds"] = progress.default_seconds;
  dict["roofline_seconds"] = progress.roofline_seconds;
  dict["seconds_left"] = progress.seconds_left;
  return dict;
}

nb::dict told(const tuner::TuneResult& result, const std::filesystem::path& database) {
  nb::dict dict, failures;
  for (const auto& [outcome, count] : result.failures)
    failures[nb::str(tuner::name_of(outcome).data(), tuner::name_of(outcome).size())] = count;
  dict["database"] = nb::steal(PyUnicode_DecodeFSDefault(database.c_str()));
  dict["nothing_to_do"] = result.nothing_to_do;
  dict["trials"] = result.trials;
  dict["reused"] = result.reused;
  dict["space"] = result.space;
  dict["failures"] = failures;
  dict["kernels"] = result.run.kernels;
  dict["default_seconds"] = result.run.default_seconds;
  dict["expected_seconds"] = result.run.expected_seconds;
  dict["lower_bound_seconds"] = result.run.lower_bound_seconds;
  dict["text"] = tune_text(result, database);
  return dict;
}

// Calls the user's function from the thread that tunes. What it raises ends the run and is kept.
class Watch {
 public:
  Watch(nb::object function, std::shared_ptr<Cancellation> cancellation)
      : function_(std::move(function)), cancellation_(std::move(cancellation)) {}
  void operator()(const tuner::TuneProgress& progress) {
    if (function_.is_none() || interpreter_ends()) return;
    const nb::gil_scoped_acquire held;
    if (raised_) return;
    try {
      function_(told(progress));
    } catch (nb::python_error& error) {
      raised_.emplace(std::move(error));
      cancellation_->cancel();
    }
  }
  void raise() {
    if (raised_) throw *std::move(raised_);
  }

 private:
  nb::object function_;
  std::shared_ptr<Cancellation> cancellation_;
  std::optional<nb::python_error> raised_;
};

}  // namespace

nb::dict tune_model(nb::object source, const std::optional<std::string>& folder, const Words& words,
                    const Words& settings, std::vector<std::int64_t> lengths,
                    std::vector<std::map<std::string, std::vector<std::int64_t>>> shapes,
                    std::vector<std::string> worker, nb::object progress, int level) {
  const UnderWay under_way;
  CompileOptions options = options_of(words);
  WarningList warnings;
  options.warn = [&](const std::string& message) { warnings.add(message); };
  TuneSettings wanted;
  for (const auto& [name, value] : settings) set_tune_setting(wanted, name, value);
  wanted.lengths = std::move(lengths);
  wanted.shapes = std::move(shapes);
  wanted.worker = std::move(worker);
  require_sizes(wanted);
  const std::filesystem::path database = tuning_file(options);
  std::optional<ModelBytes> bytes;
  tuner::ModelFile model;
  if (PyBytes_Check(source.ptr())) {
    bytes.emplace(
        std::as_bytes(std::span(PyBytes_AS_STRING(source.ptr()),
                                static_cast<std::size_t>(PyBytes_GET_SIZE(source.ptr())))),
        folder);
    model = bytes->file();
  } else {
    model.file = name_from(source, "models");
  }
  tuner::TuneResult result;
  std::optional<Watch> watch;
  interruptible([&](const std::shared_ptr<Cancellation>& cancellation) {
    options.cancellation = cancellation;
    const TuningRun run(model, options, wanted, [&] { return cancellation->cancelled(); });
    {
      const nb::gil_scoped_acquire held;
      watch.emplace(progress, cancellation);
    }
    tuner::Database stored(database, tuner::Database::Access::Write);
    result = run.tune(run.device(), stored, std::ref(*watch));
  });
  if (watch) watch->raise();
  warnings.issue(level);
  return told(result, database);
}

bool record_call(const std::string& folder, nb::handle inputs) {
  const UnderWay under_way;
  need_numpy();
  std::vector<InputInfo> infos;
  std::vector<ir::Tensor> tensors;
  std::vector<nb::object> kept;
  for (const auto& [name, array] : named_arrays(inputs, "inputs")) {
    GivenArray given = tensor_of(array, {"input", name});
    infos.push_back({.name = name, .dtype = given.tensor.dtype(), .dims = {}});
    tensors.push_back(std::move(given.tensor));
    kept.push_back(std::move(given.kept));
  }
  const nb::gil_scoped_release released;
  return keep_call(folder, infos, tensors);
}

void serve_tuning() {
  const nb::gil_scoped_release released;
  anydim::serve_tuning();
}

}  // namespace anydim::python
