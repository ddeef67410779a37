// anydim tune: measures schedules for the sizes that a model will meet, and keeps what is best in a database.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/tuning.h"
#include "api/tuning_run.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/recorded_calls.h"
#include "tools/tune_database.h"
#include "tools/tune_progress.h"

namespace anydim::tools {

namespace {

using Json = nlohmann::ordered_json;

struct TuneOptions {
  std::string model;
  std::string lengths, trace, distribution, calls;
  std::int64_t batch = 0, batch_tokens = 0;
  std::string order = "arrival";
  std::vector<std::string> outputs;
  std::string budget = "10m", lost_after = "15s";
  tuner::TuneRules rules;
  bool resume = false;
  std::string log, sweep, report;
  std::string gpu, recorded;
  DatabaseCommand database;
};

// What to tune for, and calls that are never measured, for the regret: of recorded sizes and calls the same.
struct Workloads {
  tuner::Workload tuned, unseen;
};

tuner::Workload recorded_sizes(const TuneOptions& options, const std::vector<InputInfo>& inputs, const tuner::ModelShape& shape) {
  tuner::Workload recorded;
  if (!options.calls.empty()) recorded = recorded_workload(options.calls, inputs, shape);
  if (!options.trace.empty()) {
    tuner::Workload traced = tuner::traced_workload(shape, tuner::read_trace(options.trace));
    if (options.calls.empty()) return traced;
    // The trace says how often sizes are met, the calls what values come with them.
    for (tuner::Call& call : recorded.calls) call.weight = 0;
    std::ranges::move(traced.calls, std::back_inserter(recorded.calls));
    recorded.text += ", " + traced.text;
  }
  return recorded;
}

Workloads workloads_of(const TuneOptions& options, const std::vector<InputInfo>& inputs, const tuner::ModelShape& shape) {
  if (!options.trace.empty() || !options.calls.empty()) {
    tuner::Workload recorded = recorded_sizes(options, inputs, shape);
    return {recorded, recorded};
  }
  constexpr std::size_t samples = 256;
  constexpr std::uint64_t seed = 0, other_seed = 1'000'003;
  const tuner::Distribution distribution =
      options.lengths.empty() ? tuner::parse_distribution(options.distribution) : tuner::read_lengths(options.lengths);
  runtime::BatchRule rule{.sorted = options.order == "sorted"};
  if (options.batch_tokens > 0) rule.tokens = options.batch_tokens;
  if (options.batch > 0 || options.batch_tokens == 0) rule.texts = std::max<std::int64_t>(options.batch, 1);
  return {tuner::sample_workload(shape, distribution, rule, samples, seed),
          tuner::sample_workload(shape, distribution, rule, samples, other_seed)};
}

std::vector<std::string> worker_command(const CommonOptions& common, int threads) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string(),
                                   "worker",
                                   "--quiet",
                                   "--device",
                                   common.device,
                                   "--precision",
                                   common.precision,
                                   "--masked-rows",
                                   common.masked_rows,
                                   "--threads",
                                   std::to_string(threads)};
  const auto add = [&](const char* option, const std::string& value) {
    if (value.empty()) return;
    command.emplace_back(option);
    command.push_back(value);
  };
  for (const std::string& dim : common.dims) add("--dim", dim);
  add("--cpu-level", common.cpu_level);
  add("--cache-dir", common.cache_folder);
  return command;
}

Json regret_json(const tuner::RegretReport& report) {
  const auto interval = [](const tuner::Interval95& values) { return Json::array({values.low, values.high}); };
  const auto shares = [](const tuner::Regret& regret) {
    return Json{{"expected_total", regret.expected_total}, {"mean", regret.mean}, {"percentile_99", regret.percentile_99}};
  };
  Json strategies = Json::array(), worst = Json::array();
  for (const tuner::StrategyRegret& one : report.strategies) {
    Json row = {{"name", one.name}, {"kernels", one.kernels}, {"expected_ms", 1e3 * one.expected_seconds}};
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
    for (const auto& [kernels, seconds] : curve.points) curves[curve.name].push_back({kernels, 1e3 * seconds});
  return curves;
}

Json result_json(const tuner::TuneSubject& subject, const tuner::TuneResult& result, const std::filesystem::path& file,
                 const tuner::WorkerMeasure* worker) {
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
  for (const auto& [outcome, count] : result.failures) object["failures"][std::string(tuner::name_of(outcome))] = count;
  if (worker != nullptr) {
    object["worker_restarts"] = worker->restarts();
    object["longest_restart_s"] = worker->longest_restart_seconds();
  }
  if (result.regret) {
    object["regret"] = regret_json(*result.regret);
    object["regret"]["share"] = result.regret_share;
  }
  if (!result.nothing_to_do && !result.interrupted) object["over_kernels"] = curves_json(subject, result);
  return object;
}

void print_result(const tuner::TuneResult& result, const std::filesystem::path& file) {
  if (result.nothing_to_do) {
    put("{}: nothing to do: the same model, sizes and limits were tuned at {}; a call is expected to take {:.3f} ms\n", file.string(),
        result.run.finished, 1e3 * result.run.expected_seconds);
    return;
  }
  put("{}: {} candidates tried, {} known from before, of {}\n", file.string(), result.trials, result.reused, result.space);
  for (const auto& [outcome, count] : result.failures) put("  {}: {}\n", tuner::name_of(outcome), count);
  if (result.interrupted) {
    put("interrupted: what was measured is kept; go on with --resume\n");
    return;
  }
  put("{} kernels; a call is expected to take {:.3f} ms, {:.3f} ms by the cost model alone, at least {:.3f} ms with so many kernels\n",
      result.run.kernels, 1e3 * result.run.expected_seconds, 1e3 * result.run.default_seconds, 1e3 * result.run.lower_bound_seconds);
  if (!result.regret) return;
  put("regret on sizes that were not measured, against the best of every size ({:.3f} ms){}:\n", 1e3 * result.regret->best_seconds,
      result.regret_share < 1 ? fmt::format(", over {:.0f} % of a call; no time was left for the rest", 100 * result.regret_share) : "");
  const auto with_interval = [](double share, const tuner::Interval95& interval) {
    return fmt::format("{:.2f} [{:.2f}, {:.2f}] %", 100 * share, 100 * interval.low, 100 * interval.high);
  };
  constexpr const char* columns = "  {:<24} {:>8} {:>10} {:>24} {:>8} {:>24}\n";
  put(columns, "", "kernels", "call ms", "total", "mean", "p99");
  for (const tuner::StrategyRegret& one : result.regret->strategies) {
    put(columns, one.name, one.kernels, fmt::format("{:.3f}", 1e3 * one.expected_seconds),
        with_interval(one.regret.expected_total, one.regret.expected_total_interval), fmt::format("{:.2f} %", 100 * one.regret.mean),
        with_interval(one.regret.percentile_99, one.regret.percentile_99_interval));
  }
  const tuner::Regret& noise = result.regret->noise;
  put(columns, "noise (A against A)", "", "", fmt::format("{:.2f} %", 100 * noise.expected_total),
      fmt::format("{:.2f} %", 100 * noise.mean), fmt::format("{:.2f} %", 100 * noise.percentile_99));
  put("  in brackets: 95 % intervals over {} rounds of timing\n", result.regret->rounds);
}

void show(const CommonOptions& common, const tuner::TuneSubject& subject, const tuner::TuneResult& result,
          const std::filesystem::path& file, const tuner::WorkerMeasure* worker) {
  if (common.json) put_json(result_json(subject, result, file, worker));
  else print_result(result, file);
}

// Everything measured, as one latency matrix a region: for experiments on the search itself.
void write_sweep(const std::string& file, const tuner::TuneResult& result, const ir::Program& program, const ir::Backend& backend,
                 int threads) {
  Json regions = Json::array();
  for (std::size_t i = 0; i < result.latencies.size(); ++i) {
    const tuner::RegionLatencies& latencies = result.latencies[i];
    const ir::Region& region = program.kernels.at(static_cast<std::size_t>(result.kernels[i])).region;
    Json rows = Json::array();
    for (std::size_t c = 0; c < latencies.candidates.size(); ++c) {
      Json seconds = Json::array(), estimates = Json::array();
      for (std::size_t p = 0; p < latencies.points.size(); ++p) {
        seconds.push_back(1e6 * latencies.seconds[c][p]);
        estimates.push_back(1e6 * backend.estimate(region, latencies.candidates[c].schedule, latencies.points[p], threads));
      }
      rows.push_back({{"schedule", to_string(latencies.candidates[c].schedule)}, {"us", seconds}, {"estimate_us", estimates}});
    }
    // Where each point's schedule by the cost model stands.
    Json incumbents = Json::array();
    const ir::DispatchTable& table = program.kernels.at(static_cast<std::size_t>(result.kernels[i])).table;
    for (const std::vector<std::int64_t>& keys : latencies.points) {
      const ir::Schedule& incumbent = tuner::entry_for(table, keys).schedule;
      const auto at = std::ranges::find(latencies.candidates, incumbent, &tuner::KernelCandidate::schedule);
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
  if (!stream.flush()) throw Error(ErrorKind::Write, fmt::format("{}: cannot be written", file));
}

void write_report(const TuneOptions& options, const tuner::TuneSubject& subject, const tuner::TuneResult& result) {
  if (options.report.empty() || result.nothing_to_do || result.interrupted) return;
  std::ofstream stream(options.report, std::ios::binary);
  stream << tuner::html_report(tuner::report_of(subject, result));
  if (!stream.flush()) throw Error(ErrorKind::Write, fmt::format("{}: cannot be written", options.report));
}

// For a GPU that is not here: by the cost model and what candidates compile to, or by latencies that were recorded on one.
void predict(const TuneOptions& options, const CommonOptions& common, const CompileOptions& compile, const std::filesystem::path& file,
             const HeldInterrupts& interrupts) {
  if (compile.device != DeviceKind::Cuda) throw Error(ErrorKind::CommandLine, "--gpu predicts for a GPU; give --device cuda too");
  const CompileTarget target = planned_gpu(options.gpu);
  const PlannedModel model = plan_model(target, load_model(options.model), compile);
  const auto [workload, unseen] = workloads_of(options, model.inputs, model.shape);
  const tuner::TuneSubject subject{.model = std::filesystem::path(options.model).filename().string(),
                                   .shape = model.shape,
                                   .program = model.program,
                                   .backend = *target.backend,
                                   .environment = tuning_environment(target, compile)};
  std::optional<tuner::RecordedMatrix> matrix;
  if (!options.recorded.empty()) matrix = tuner::RecordedMatrix::read(options.recorded);
  tuner::Database database(file, tuner::Database::Access::Write);
  TuneLine line(common.quiet);
  const tuner::TuneResult result = tuner::tune(
      subject, workload, unseen, options.rules, matrix ? tuner::replayed_device(subject, *matrix) : tuner::predicted_device(subject),
      database,
      {.progress = [&](const tuner::TuneProgress& progress) { line.show(progress); }, .interrupted = [&] { return interrupts.came(); }});
  write_report(options, subject, result);
  show(common, subject, result, file, nullptr);
}

void tune(TuneOptions options, const CommonOptions& common) {
  if (options.database.wanted()) {
    run_database_command(options.database, common);
    return;
  }
  if (options.model.empty())
    throw Error(ErrorKind::CommandLine, "tune needs a MODEL, or one of --show, --export FILE, --import FILE and --merge FILE");
  const HeldInterrupts interrupts;  // before any thread
  const auto ranks =
      tuner::started_ranks() > 1 ? std::make_unique<tuner::Ranks>(parse_duration(options.lost_after, "--lost-after")) : nullptr;
  const int sources = static_cast<int>(!options.lengths.empty()) + static_cast<int>(!options.trace.empty()) +
                      static_cast<int>(!options.distribution.empty());
  if (sources > 1 || (sources == 0 && options.calls.empty()))
    throw Error(ErrorKind::CommandLine,
                "tune needs one of --lengths FILE, --trace FILE, --distribution TEXT and --calls FOLDER: the sizes to tune for");
  if (!options.calls.empty() && sources == 1 && options.trace.empty())
    throw Error(ErrorKind::CommandLine, "--calls FOLDER goes alone or with --trace FILE: recorded calls have sizes of their own");
  options.rules.budget_seconds = parse_duration(options.budget, "--budget");
  CompileOptions compile = compile_options(common);
  const std::filesystem::path file = common.database.empty() ? default_database(compile) : std::filesystem::path(common.database);
  if (file.empty()) throw Error(ErrorKind::CommandLine, "there is no folder for the user's own tuning database; name one with --db FILE");
  compile.database.reset();  // incumbents are the cost model's choice
  compile.outputs = options.outputs;
  compile.background = false;
  compile.threads = compile.threads > 0 ? compile.threads : available_threads();
  std::error_code fault;
  if (!common.database.empty() && options.resume && !std::filesystem::exists(file, fault))
    throw Error(ErrorKind::Malformed, fmt::format("{}: there is no such database to resume from", file.string()));

  if (!options.recorded.empty() && options.gpu.empty())
    throw Error(ErrorKind::CommandLine, "--recorded replays what was measured on a GPU; say on which by --gpu and --device cuda");
  if (!options.gpu.empty()) {
    predict(options, common, compile, file, interrupts);
    return;
  }
  const CompileTarget target = make_target(compile);
  const auto model = Model::compile(target, load_model(options.model), compile);
  const auto program = program_of(*model);
  const tuner::ModelShape shape = shape_of(*model);
  const auto [workload, unseen] = workloads_of(options, model->inputs(), shape);
  if (compile.warn && options.calls.empty() && tuner::values_decide_launches(program->program()))
    compile.warn(
        "values that the model computes decide its sizes, and its integer inputs are made up: it is measured where these lead; record "
        "calls with `anydim run --record FILE --record-calls FOLDER` and tune with --trace FILE --calls FOLDER");
  const tuner::TuneSubject subject{.model = std::filesystem::path(options.model).filename().string(),
                                   .shape = shape,
                                   .program = program->program(),
                                   .backend = *target.backend,
                                   .environment = tuning_environment(target, compile)};

  TuneLine line(common.quiet);
  tuner::WorkerSettings settings{.command = worker_command(common, compile.threads), .log = options.log, .model = options.model};
  settings.outputs = options.outputs;
  settings.regions = tuner::region_fingerprints(program->program());
  std::unique_ptr<tuner::WorkerMeasure> worker;
  const auto interrupted = [&] {
    if (ranks != nullptr && ranks->rank() > 0) ranks->pulse();
    return interrupts.came();
  };
  const tuner::TuneDevice device{.prepare =
                                     [&](const std::vector<tuner::Call>& calls) {
                                       settings.calls = calls;
                                       worker = std::make_unique<tuner::WorkerMeasure>(settings, interrupted);
                                       return worker->prepare();
                                     },
                                 .measure = [&](const tuner::TrialRequest& request) { return (*worker)(request); }};
  std::optional<tuner::TuneDevice> spread;
  if (ranks != nullptr) {
    if (ranks->rank() > 0) {
      const std::string why = ranks->serve(subject.environment, device);
      if (!why.empty()) throw Error(ErrorKind::Resource, fmt::format("rank {} measures nothing: {}", ranks->rank(), why));
      return;
    }
    spread = ranks->device(subject.environment, interrupted);
    for (const std::string& refused : ranks->refused())
      if (compile.warn) compile.warn(refused + "; it measures nothing");
  }
  tuner::Database database(file, tuner::Database::Access::Write);
  const tuner::TuneResult result =
      tuner::tune(subject, workload, unseen, options.rules, spread ? *spread : device, database,
                  {.progress = [&](const tuner::TuneProgress& progress) { line.show(progress); }, .interrupted = interrupted});
  if (ranks != nullptr && compile.warn)
    for (const int lost : ranks->lost()) compile.warn(fmt::format("rank {} was lost; others took over its work", lost));
  write_report(options, subject, result);
  if (!options.sweep.empty()) write_sweep(options.sweep, result, program->program(), *target.backend, compile.threads);
  show(common, subject, result, file, worker.get());
}

}  // namespace

void add_tune(CLI::App& app, CommonOptions& common, Action& action) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command = app.add_subcommand("tune", "measure schedules for the sizes that a model will meet");
  command->add_option("MODEL", options->model, "an ONNX model or a module in text form");
  command->add_option("--lengths", options->lengths, "lengths of texts: one a line, or a JSON list of token ids a line");
  command->add_option("--trace", options->trace, "sizes that `anydim run --record` met");
  command->add_option("--calls", options->calls, "calls that `anydim run --record-calls` kept, to measure on their inputs");
  command->add_option("--distribution", options->distribution,
                      "lengths such as 'lognormal(3.4, 0.8, 1, 512)', uniform(1, 512) or constant(128)");
  command->add_option("--batch", options->batch, "texts a batch; default 1")->check(CLI::PositiveNumber);
  command->add_option("--batch-tokens", options->batch_tokens, "padded tokens a batch")->check(CLI::PositiveNumber);
  command->add_option("--order", options->order, "of texts in batches")->check(CLI::IsMember({"arrival", "sorted"}))->capture_default_str();
  command->add_option("--outputs", options->outputs, "names of the outputs that will be asked for, with commas; default: all")
      ->delimiter(',');
  command->add_option("--budget", options->budget, "time to measure, e.g. 90s, 10m, 2h")->capture_default_str();
  command
      ->add_option("--trials", options->rules.most_trials, "candidates to try at most in this run; default: as many as the budget allows")
      ->check(CLI::PositiveNumber);
  command->add_option("--max-kernels", options->rules.most_kernels, "distinct kernels over the whole model")->capture_default_str();
  command->add_option("--points", options->rules.points, "representative calls to measure at")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_flag("--resume", options->resume, "go on with a database that is already there");
  command->add_flag("--exhaustive", options->rules.exhaustive, "try every schedule there is, as far as the budget goes");
  command->add_option("--sweep", options->sweep, "file for all that was measured, as matrices (JSON)");
  command->add_option("--report", options->report, "file for what was found, as one HTML page");
  command->add_option("--lost-after", options->lost_after, "under mpirun: silence after which a rank is given up")->capture_default_str();
  command->add_option("--log", options->log, "file for what measuring processes write to standard error");
  command->add_option("--gpu", options->gpu, "predict for this GPU (h200, a100, ...) without having one; with --device cuda");
  command->add_option("--recorded", options->recorded, "with --gpu: latencies by schedule and shape that the GPU campaign recorded");
  add_database_options(*command, options->database);
  add_common_options(*command, common);
  command->callback([&common, &action, options] { action = [&common, options] { tune(*options, common); }; });
}

}  // namespace anydim::tools
