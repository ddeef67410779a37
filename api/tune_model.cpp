#include "api/tune_model.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "api/load.h"
#include "api/recorded_calls.h"
#include "api/recording.h"
#include "api/tuning.h"

namespace anydim {

namespace {

tuner::Workload recorded_sizes(const TuneSettings& settings, const std::vector<InputInfo>& inputs,
                               const tuner::ModelShape& shape) {
  tuner::Workload recorded;
  if (!settings.calls.empty()) recorded = recorded_workload(settings.calls, inputs, shape);
  if (!settings.trace.empty()) {
    tuner::Workload traced = tuner::traced_workload(shape, tuner::read_trace(settings.trace));
    if (settings.calls.empty()) return traced;
    // The trace says how often sizes are met, the calls what values come with them.
    for (tuner::Call& call : recorded.calls) call.weight = 0;
    std::ranges::move(traced.calls, std::back_inserter(recorded.calls));
    recorded.text += ", " + traced.text;
  }
  return recorded;
}

// As if a trace had met each of the shapes once, every row of which takes part.
tuner::Workload shapes_workload(const TuneSettings& settings, const std::vector<InputInfo>& inputs,
                                const tuner::ModelShape& shape) {
  tuner::Trace trace = trace_of(inputs, shape);
  for (const auto& shapes : settings.shapes) {
    NamedTensors named;
    for (const auto& [name, dims] : shapes) {
      const auto input = std::ranges::find(inputs, name, &InputInfo::name);
      named.emplace(name, ir::Tensor(input == inputs.end() ? ir::DType::F32 : input->dtype, dims));
    }
    const std::vector<ir::Tensor> tensors = arrange_inputs(inputs, named);
    const std::int64_t rows = shape.packing ? tensors.at(shape.packing->mask).elements() : 0;
    trace.add(traced_values(trace.symbols(), inputs, tensors), rows);
  }
  return tuner::traced_workload(shape, trace);
}

tuner::Distribution lengths_of(const TuneSettings& settings) {
  if (!settings.lengths.empty()) return tuner::observed_lengths(settings.lengths, "lengths");
  return settings.lengths_file.empty() ? tuner::parse_distribution(settings.distribution)
                                       : tuner::read_lengths(settings.lengths_file);
}

}  // namespace

ir::Module load_model(const tuner::ModelFile& model) {
  if (!model.anonymous) return load_model(std::filesystem::path(model.file));
  std::ifstream stream(model.file, std::ios::binary);
  if (!stream) throw Error(ErrorKind::Malformed, "{}: cannot be opened", model.file);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  return load_model_bytes(std::as_bytes(std::span(bytes)), model.folder);
}

ModelBytes::ModelBytes(std::span<const std::byte> bytes, const std::optional<std::string>& folder)
    : descriptor_(memfd_create("anydim-model", MFD_CLOEXEC)),
      file_{.file = fmt::format("/proc/{}/fd/{}", getpid(), descriptor_.number()),
            .anonymous = true,
            .folder = folder} {
  if (!descriptor_ || !ir::write_all(descriptor_, bytes))
    throw Error(ErrorKind::Resource, "there is no memory for the model's bytes: {}",
                std::strerror(errno));
}

TuneWorkloads workloads_of(const TuneSettings& settings, const std::vector<InputInfo>& inputs,
                           const tuner::ModelShape& shape) {
  if (!settings.trace.empty() || !settings.calls.empty()) {
    tuner::Workload recorded = recorded_sizes(settings, inputs, shape);
    return {recorded, recorded};
  }
  if (!settings.shapes.empty()) {
    tuner::Workload shapes = shapes_workload(settings, inputs, shape);
    return {shapes, shapes};
  }
  constexpr std::size_t samples = 256;
  constexpr std::uint64_t seed = 0, other_seed = 1'000'003;
  const tuner::Distribution distribution = lengths_of(settings);
  runtime::BatchRule rule{.sorted = settings.order == "sorted"};
  if (settings.batch_tokens > 0) rule.tokens = settings.batch_tokens;
  if (settings.batch > 0 || settings.batch_tokens == 0)
    rule.texts = std::max<std::int64_t>(settings.batch, 1);
  return {tuner::sample_workload(shape, distribution, rule, samples, seed),
          tuner::sample_workload(shape, distribution, rule, samples, other_seed)};
}

std::filesystem::path tuning_file(const CompileOptions& options) {
  if (options.database) return *options.database;
  throw Error(
      ErrorKind::CommandLine,
      "tuning keeps what it measures: name a database, for there is no folder for the user's own");
}

struct TuningRun::State {
  TuneSettings settings;
  std::function<bool()> interrupted;
  CompileTarget target;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const runtime::Executable> program;
  tuner::ModelShape shape;
  TuneWorkloads workloads;
  std::optional<tuner::TuneSubject> subject;
  tuner::WorkerSettings worker_settings;
  std::unique_ptr<tuner::WorkerMeasure> worker;
  tuner::TuneDevice device;
};

TuningRun::TuningRun(const tuner::ModelFile& model, CompileOptions options, TuneSettings settings,
                     std::function<bool()> interrupted)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  require_sizes(settings);
  state.settings = std::move(settings);
  state.interrupted = std::move(interrupted);
  options.database.reset();  // incumbents are the cost model's choice
  options.background = false;
  options.threads = thread_count(options);
  state.target = make_target(options);
  state.model = Model::compile(state.target, load_model(model), options);
  state.program = program_of(*state.model);
  const ir::Program& program = state.program->program();
  state.shape = shape_of(*state.model);
  state.workloads = workloads_of(state.settings, state.model->inputs(), state.shape);
  if (options.warn && state.settings.calls.empty() && tuner::values_decide_launches(program))
    options.warn(
        "values that the model computes decide its sizes, and its integer inputs are made up: it "
        "is measured where these lead; record calls with `anydim run --record FILE --record-calls "
        "FOLDER` and tune for that trace and these calls");
  state.subject.emplace(tuner::TuneSubject{
      .model = model.anonymous ? "a model without a name"
                               : std::filesystem::path(model.file).filename().string(),
      .shape = state.shape,
      .program = program,
      .backend = *state.target.backend,
      .environment = tuning_environment(state.target, options)});
  state.worker_settings = {.command = state.settings.worker,
                           .log = state.settings.log,
                           .model = model,
                           .options = option_words(options)};
  state.worker_settings.regions = tuner::region_fingerprints(program);
  state.device = {
      .prepare =
          [&state](const std::vector<tuner::Call>& calls) {
            state.worker_settings.calls = calls;
            state.worker =
                std::make_unique<tuner::WorkerMeasure>(state.worker_settings, state.interrupted);
            return state.worker->prepare();
          },
      .measure = [&state](const tuner::TrialRequest& request) { return (*state.worker)(request); },
      .measure_in_calls =
          [&state](const std::vector<tuner::TrialRequest>& requests) {
            return state.worker->in_calls(requests);
          }};
  // A device of its own leaves this machine's processors to the compiler.
  if (state.target.device != nullptr && state.target.device->has_memory()) {
    constexpr int most_ahead = 8;
    state.worker_settings.compile_seconds *= 3;  // of one beside so many
    state.device.width =
        static_cast<std::size_t>(std::clamp(thread_count(options) - 1, 1, most_ahead));
    state.device.expect = [&state](const std::vector<tuner::TrialRequest>& requests) {
      state.worker->expect(requests);
    };
  }
}

TuningRun::~TuningRun() = default;

const tuner::TuneSubject& TuningRun::subject() const { return *state_->subject; }
const tuner::TuneDevice& TuningRun::device() const { return state_->device; }
const tuner::WorkerMeasure* TuningRun::worker() const { return state_->worker.get(); }

tuner::TuneResult TuningRun::tune(
    const tuner::TuneDevice& device, tuner::Database& database,
    const std::function<void(const tuner::TuneProgress&)>& progress) const {
  const State& state = *state_;
  tuner::TuneResult result = tuner::tune(
      *state.subject, state.workloads.tuned, state.workloads.unseen, state.settings.rules, device,
      database, {.progress = progress, .interrupted = state.interrupted});
  if (!state.settings.report.empty())
    write_tune_report(state.settings.report, *state.subject, result);
  return result;
}

void write_tune_report(const std::string& file, const tuner::TuneSubject& subject,
                       const tuner::TuneResult& result) {
  if (result.nothing_to_do || result.interrupted) return;
  std::ofstream stream(file, std::ios::binary);
  stream << tuner::html_report(tuner::report_of(subject, result));
  if (!stream.flush()) throw Error(ErrorKind::Write, "{}: cannot be written", file);
}

}  // namespace anydim
