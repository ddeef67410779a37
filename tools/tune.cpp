// anydim tune: measures schedules for the sizes that a model will meet, and keeps what is best in a
// database.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/tune_model.h"
#include "api/tune_text.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/tune_database.h"
#include "tools/tune_progress.h"

namespace anydim::tools {

namespace {

using Json = nlohmann::ordered_json;

struct TuneOptions {
  std::string model;
  TuneSettings settings;
  std::vector<std::string> outputs;
  std::string budget = "10m", lost_after = "15s";
  bool resume = false;
  std::string sweep;
  std::string gpu, recorded;
  DatabaseCommand database;
};

Json regret_json(const tuner::RegretReport& report) {
  const auto interval = [](const tuner::Interval95& values) {
    return Json::array({values.low, values.high});
  };
  const auto shares = [](const tuner::Regret& regret) {
    return Json{{"expected_total", regret.expected_total},
                {"mean", regret.mean},
                {"percentile_99", regret.percentile_99}};
  };
  Json strategies = Json::array(), worst = Json::array();
  for (const tuner::StrategyRegret& one : report.strategies) {
    Json row = {
        {"name", one.name}, {"kernels", one.kernels}, {"expected_ms", 1e3 * one.expected_seconds}};
    row.update(shares(one.regret));
    row["expected_total_interval"] = interval(one.regret.expected_total_interval);
    row["percentile_99_interval"] = interval(one.regret.percentile_99_interval);
    row["over_tuned_interval"] = interval(one.over_first);
    strategies.push_back(std::move(row));
  }
  for (const tuner::WorstShape& one : report.worst) {
    worst.push_back({{"region", one.region},
                     {"keys", one.keys},
                     {"chosen", to_string(one.chosen)},
                     {"best", to_string(one.best)},
                     {"over_best", one.over_best},
                     {"share_of_launches", one.share},
                     {"us", 1e6 * one.seconds}});
  }
  return {{"best_ms", 1e3 * report.best_seconds},
          {"rounds", report.rounds},
          {"strategies", strategies},
          {"noise", shares(report.noise)},
          {"worst", worst}};
}

// Expected milliseconds of a call against the number of kernels, by the way to choose them.
Json curves_json(const tuner::TuneSubject& subject, const tuner::TuneResult& result) {
  Json curves = Json::object();
  for (const tuner::ReportCurve& curve : tuner::report_of(subject, result).latency_over_kernels)
    for (const auto& [kernels, seconds] : curve.points)
      curves[curve.name].push_back({kernels, 1e3 * seconds});
  return curves;
}

Json result_json(const tuner::TuneSubject& subject, const tuner::TuneResult& result,
                 const std::filesystem::path& file, const tuner::WorkerMeasure* worker) {
  Json object = {{"database", file.string()},
                 {"nothing_to_do", result.nothing_to_do},
                 {"interrupted", result.interrupted},
                 {"trials", result.trials},
                 {"reused", result.reused},
                 {"space", result.space},
                 {"kernels", result.run.kernels},
                 {"default_ms", 1e3 * result.run.default_seconds},
                 {"expected_ms", 1e3 * result.run.expected_seconds},
                 {"lower_bound_ms", 1e3 * result.run.lower_bound_seconds},
                 {"failures", Json::object()}};
  for (const auto& [outcome, count] : result.failures)
    object["failures"][std::string(tuner::name_of(outcome))] = count;
  if (worker != nullptr) {
    object["worker_restarts"] = worker->restarts();
    object["longest_restart_s"] = worker->longest_restart_seconds();
  }
  if (result.regret) {
    object["regret"] = regret_json(*result.regret);
    object["regret"]["share"] = result.regret_share;
  }
  if (!result.nothing_to_do && !result.interrupted)
    object["over_kernels"] = curves_json(subject, result);
  return object;
}

void show(const CommonOptions& common, const tuner::TuneSubject& subject,
          const tuner::TuneResult& result, const std::filesystem::path& file,
          const tuner::WorkerMeasure* worker) {
  if (common.json) put_json(result_json(subject, result, file, worker));
  else put_text(tune_text(result, file));
}

// Everything measured, as one latency matrix a region: for experiments on the search itself.
void write_sweep(const std::string& file, const tuner::TuneResult& result,
                 const ir::Program& program, const ir::Backend& backend, int threads) {
  Json regions = Json::array();
  for (std::size_t i = 0; i < result.latencies.size(); ++i) {
    const tuner::RegionLatencies& latencies = result.latencies[i];
    const ir::Region& region =
        program.kernels.at(static_cast<std::size_t>(result.kernels[i])).region;
    Json rows = Json::array();
    for (std::size_t c = 0; c < latencies.candidates.size(); ++c) {
      Json seconds = Json::array(), estimates = Json::array();
      for (std::size_t p = 0; p < latencies.points.size(); ++p) {
        seconds.push_back(1e6 * latencies.seconds[c][p]);
        estimates.push_back(1e6 * backend.estimate(region, latencies.candidates[c].schedule,
                                                   latencies.points[p], threads));
      }
      rows.push_back({{"schedule", to_string(latencies.candidates[c].schedule)},
                      {"us", seconds},
                      {"estimate_us", estimates}});
    }
    // Where each point's schedule by the cost model stands.
    Json incumbents = Json::array();
    const ir::DispatchTable& table =
        program.kernels.at(static_cast<std::size_t>(result.kernels[i])).table;
    for (const std::vector<std::int64_t>& keys : latencies.points) {
      const ir::Schedule& incumbent = tuner::entry_for(table, keys).schedule;
      const auto at =
          std::ranges::find(latencies.candidates, incumbent, &tuner::KernelCandidate::schedule);
      incumbents.push_back(at - latencies.candidates.begin());
    }
    regions.push_back({{"region", region.name},
                       {"points", latencies.points},
                       {"weights", latencies.weights},
                       {"incumbents", incumbents},
                       {"candidates", rows}});
  }
  std::ofstream stream(file, std::ios::binary);
  stream << Json{{"regions", regions}}.dump(-1) << "\n";
  if (!stream.flush()) throw Error(ErrorKind::Write, "{}: cannot be written", file);
}

// For a GPU that is not here: by the cost model and what candidates compile to, or by latencies
// that were recorded on one.
void predict(const TuneOptions& options, const CommonOptions& common, CompileOptions compile,
             const std::filesystem::path& file, const HeldInterrupts& interrupts) {
  compile.database.reset();  // incumbents are the cost model's choice
  if (compile.device != DeviceKind::Cuda)
    throw Error(ErrorKind::CommandLine, "--gpu predicts for a GPU; give --device cuda too");
  const CompileTarget target = planned_gpu(options.gpu, compile);
  const PlannedModel model = plan_model(target, load_model(options.model), compile);
  const TuneWorkloads workloads = workloads_of(options.settings, model.inputs, model.shape);
  const tuner::TuneSubject subject{
      .model = std::filesystem::path(options.model).filename().string(),
      .shape = model.shape,
      .program = model.program,
      .backend = *target.backend,
      .environment = tuning_environment(target, compile)};
  std::optional<tuner::RecordedMatrix> matrix;
  if (!options.recorded.empty()) matrix = tuner::RecordedMatrix::read(options.recorded);
  tuner::Database database(file, tuner::Database::Access::Write);
  TuneLine line(common.quiet);
  const tuner::TuneResult result = tuner::tune(
      subject, workloads.tuned, workloads.unseen, options.settings.rules,
      matrix ? tuner::replayed_device(subject, *matrix) : tuner::predicted_device(subject),
      database,
      {.progress = [&](const tuner::TuneProgress& progress) { line.show(progress); },
       .interrupted = [&] { return interrupts.came(); }});
  if (!options.settings.report.empty()) write_tune_report(options.settings.report, subject, result);
  show(common, subject, result, file, nullptr);
}

void tune(TuneOptions options, const CommonOptions& common) {
  if (options.database.wanted()) {
    run_database_command(options.database, common);
    return;
  }
  if (options.model.empty())
    throw Error(
        ErrorKind::CommandLine,
        "tune needs a MODEL, or one of --show, --export FILE, --import FILE and --merge FILE");
  const HeldInterrupts interrupts;  // before any thread
  const auto ranks =
      tuner::started_ranks() > 1
          ? std::make_unique<tuner::Ranks>(parse_duration(options.lost_after, "--lost-after"))
          : nullptr;
  require_sizes(options.settings);
  options.settings.rules.budget_seconds = parse_duration(options.budget, "--budget");
  CompileOptions compile = compile_options(common);
  const std::filesystem::path file = tuning_file(compile);
  compile.outputs = options.outputs;
  std::error_code fault;
  if (!common.database.empty() && options.resume && !std::filesystem::exists(file, fault))
    throw Error(ErrorKind::Malformed, "{}: there is no such database to resume from",
                file.string());

  if (!options.recorded.empty() && options.gpu.empty())
    throw Error(
        ErrorKind::CommandLine,
        "--recorded replays what was measured on a GPU; say on which by --gpu and --device cuda");
  if (!options.gpu.empty()) {
    predict(options, common, compile, file, interrupts);
    return;
  }
  options.settings.worker = {std::filesystem::read_symlink("/proc/self/exe").string(), "worker"};
  const auto interrupted = [&] {
    if (ranks != nullptr && ranks->rank() > 0) ranks->pulse();
    return interrupts.came();
  };
  const TuningRun run({.file = options.model}, compile, options.settings, interrupted);
  const tuner::TuneSubject& subject = run.subject();
  std::optional<tuner::TuneDevice> spread;
  if (ranks != nullptr) {
    if (ranks->rank() > 0) {
      const std::string why = ranks->serve(subject.environment, run.device());
      if (!why.empty())
        throw Error(ErrorKind::Resource, "rank {} measures nothing: {}", ranks->rank(), why);
      return;
    }
    spread = ranks->device(subject.environment, interrupted);
    for (const std::string& refused : ranks->refused())
      if (compile.warn) compile.warn(refused + "; it measures nothing");
  }
  tuner::Database database(file, tuner::Database::Access::Write);
  TuneLine line(common.quiet);
  const tuner::TuneResult result =
      run.tune(spread ? *spread : run.device(), database,
               [&](const tuner::TuneProgress& progress) { line.show(progress); });
  if (ranks != nullptr && compile.warn)
    for (const int lost : ranks->lost())
      compile.warn(fmt::format("rank {} was lost; others took over its work", lost));
  if (!options.sweep.empty())
    write_sweep(options.sweep, result, subject.program, subject.backend,
                subject.environment.threads);
  show(common, subject, result, file, run.worker());
}

}  // namespace

void add_tune(CLI::App& app, CommonOptions& common, Action& action) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command =
      app.add_subcommand("tune", "measure schedules for the sizes that a model will meet");
  command->add_option("MODEL", options->model, "an ONNX model or a module in text form");
  command->add_option("--lengths", options->settings.lengths_file,
                      "lengths of texts: one a line, or a JSON list of token ids a line");
  command->add_option("--trace", options->settings.trace, "sizes that `anydim run --record` met");
  command->add_option("--calls", options->settings.calls,
                      "calls that `anydim run --record-calls` kept, to measure on their inputs");
  command->add_option(
      "--distribution", options->settings.distribution,
      "lengths such as 'lognormal(3.4, 0.8, 1, 512)', uniform(1, 512) or constant(128)");
  command->add_option("--batch", options->settings.batch, "texts a batch; default 1")
      ->check(CLI::PositiveNumber);
  command->add_option("--batch-tokens", options->settings.batch_tokens, "padded tokens a batch")
      ->check(CLI::PositiveNumber);
  command->add_option("--order", options->settings.order, "of texts in batches")
      ->check(CLI::IsMember({"arrival", "sorted"}))
      ->capture_default_str();
  command
      ->add_option("--outputs", options->outputs,
                   "names of the outputs that will be asked for, with commas; default: all")
      ->delimiter(',');
  command->add_option("--budget", options->budget, "time to measure, e.g. 90s, 10m, 2h")
      ->capture_default_str();
  command
      ->add_option("--trials", options->settings.rules.most_trials,
                   "candidates to try at most in this run; default: as many as the budget allows")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--max-kernels", options->settings.rules.most_kernels,
                   "distinct kernels over the whole model")
      ->capture_default_str();
  command
      ->add_option("--points", options->settings.rules.points, "representative calls to measure at")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_flag("--resume", options->resume, "go on with a database that is already there");
  command->add_flag("--exhaustive", options->settings.rules.exhaustive,
                    "try every schedule there is, as far as the budget goes");
  command->add_option("--sweep", options->sweep,
                      "file for all that was measured, as matrices (JSON)");
  command->add_option("--report", options->settings.report,
                      "file for what was found, as one HTML page");
  command
      ->add_option("--lost-after", options->lost_after,
                   "under mpirun: silence after which a rank is given up")
      ->capture_default_str();
  command->add_option("--log", options->settings.log,
                      "file for what measuring processes write to standard error");
  command->add_option(
      "--gpu", options->gpu,
      "predict for this GPU (h200, a100, ...) without having one; with --device cuda");
  command->add_option("--recorded", options->recorded,
                      "with --gpu: latencies by schedule and shape that the GPU campaign recorded");
  add_database_options(*command, options->database);
  add_common_options(*command, common);
  command->callback(
      [&common, &action, options] { action = [&common, options] { tune(*options, common); }; });
}

}  // namespace anydim::tools
