// anydim bench: a model on one call's inputs (bench_model.h), a text encoder over a file of tokens,
// or one operator against a library (bench_op.h).

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/bench_model.h"
#include "tools/bench_op.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/tokens.h"
#include "tools/trace_option.h"

namespace anydim::tools {

namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::vector<std::string> arguments;  // the model, or with --op the shapes
  std::string tokens;
  std::int64_t batch = 0, batch_tokens = 0;
  std::string order = "arrival";
  std::vector<std::string> outputs;
  int repeat = 3;
  bool ragged = false;
  TraceOptions trace;
  OperatorBench operation;
  ModelBench model;
};

struct Figures {
  std::int64_t useful_tokens = 0, computed_tokens = 0;
  double useful_tokens_per_s = 0, batch_p50_ms = 0, batch_p99_ms = 0, load_s = 0,
         first_result_s = 0;
  std::int64_t peak_bytes = 0;
  std::map<std::string, std::int64_t> schedules;  // rows of the tables, by who chose them
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// One batch's call: padded inputs, or with offsets texts end to end.
struct Call {
  std::vector<ir::Tensor> inputs;
  std::optional<ir::Tensor> offsets{};

  std::vector<ir::Tensor> run(ModelContext& context) const {
    return offsets ? context.run_ragged(inputs, *offsets) : context.run(inputs);
  }
};

// The model's inputs for a batch: those of the three known names that it has.
std::vector<ir::Tensor> feed(const std::vector<InputInfo>& inputs, NamedTensors known) {
  for (const InputInfo& input : inputs) {
    if (!known.contains(input.name)) {
      throw Error(ErrorKind::Inputs,
                  "bench feeds input_ids, attention_mask and token_type_ids, but the model also "
                  "has input {}",
                  to_string(input));
    }
  }
  std::erase_if(known, [&](const auto& entry) {
    return std::ranges::none_of(inputs,
                                [&](const InputInfo& input) { return input.name == entry.first; });
  });
  return arrange_inputs(inputs, known);
}

Figures measure(const BenchOptions& options, CompileOptions compile_options,
                const ProcessClock& process) {
  const std::vector<Text> texts = read_tokens(options.tokens);
  Figures figures;
  const auto begin = Clock::now();
  compile_options.outputs = options.outputs;
  const auto model = Model::compile(load_model(options.arguments[0]), compile_options);
  const auto ragged = options.ragged ? model->ragged() : nullptr;
  figures.load_s = seconds_since(begin);
  runtime::BatchRule rule = options.batch_tokens > 0 ? model->batch_rule(options.batch_tokens)
                                                     : runtime::BatchRule{.texts = options.batch};
  rule.sorted = options.order == "sorted";
  if (ragged != nullptr) rule.counted = runtime::CountedTokens::Useful;
  const std::vector<runtime::Batch> batches = runtime::make_batches(lengths_of(texts), rule);
  std::vector<Call> work;
  for (const runtime::Batch& batch : batches) {
    if (ragged == nullptr) {
      work.push_back({.inputs = feed(model->inputs(), batch_inputs(texts, batch))});
    } else {
      RaggedInputs inputs = ragged_inputs(texts, batch);
      work.push_back({.inputs = feed(ragged->inputs, std::move(inputs.tensors)),
                      .offsets = std::move(inputs.offsets)});
    }
  }
  for (const Text& text : texts) figures.useful_tokens += static_cast<std::int64_t>(text.size());

  ModelContext context(model);
  work[0].run(context);
  figures.first_result_s = process.seconds();
  // The warm-up pass also lets the rest of the kernels arrive: what is timed is the steady state.
  for (std::size_t i = 0; i < work.size(); ++i) {
    work[i].run(context);
    const auto padded_rows =
        static_cast<std::int64_t>(batches[i].texts.size()) * batches[i].longest;
    figures.computed_tokens += context.packed_rows().value_or(padded_rows);
  }
  model->complete();

  double best = std::numeric_limits<double>::max();
  std::vector<double> times;
  for (int turn = 0; turn < options.repeat; ++turn) {
    const auto pass = Clock::now();
    for (const Call& call : work) {
      const auto at = Clock::now();
      const std::vector<ir::Tensor> outputs = call.run(context);
      times.push_back(seconds_since(at));
    }
    best = std::min(best, seconds_since(pass));
  }
  figures.useful_tokens_per_s = static_cast<double>(figures.useful_tokens) / best;
  std::ranges::sort(times);
  figures.batch_p50_ms = 1e3 * percentile(times, 0.5);
  figures.batch_p99_ms = 1e3 * percentile(times, 0.99);
  figures.peak_bytes = peak_resident_bytes();
  figures.schedules =
      count_by_choice(table_rows(model->packing() ? *model->packed() : *model->padded()));
  return figures;
}

void print(const Figures& figures, bool json) {
  if (json) {
    const nlohmann::ordered_json object = {{"useful_tokens", figures.useful_tokens},
                                           {"useful_tokens_per_s", figures.useful_tokens_per_s},
                                           {"computed_tokens", figures.computed_tokens},
                                           {"batch_p50_ms", figures.batch_p50_ms},
                                           {"batch_p99_ms", figures.batch_p99_ms},
                                           {"load_s", figures.load_s},
                                           {"first_result_s", figures.first_result_s},
                                           {"peak_bytes", figures.peak_bytes},
                                           {"schedules", figures.schedules}};
    put_json(object);
    return;
  }
  put("useful tokens      {:>10}\ncomputed tokens    {:>10}\nuseful tokens/s    {:>10.0f}\nbatch "
      "p50          {:>10.3f} ms\n"
      "batch p99          {:>10.3f} ms\nload               {:>10.3f} s\nfirst result       "
      "{:>10.3f} s\npeak memory        {:>10.1f} MB\n",
      figures.useful_tokens, figures.computed_tokens, figures.useful_tokens_per_s,
      figures.batch_p50_ms, figures.batch_p99_ms, figures.load_s, figures.first_result_s,
      1e-6 * static_cast<double>(figures.peak_bytes));
  for (const auto& [chosen, rows] : figures.schedules)
    put("schedules, {:<17} {:>5}\n", chosen, rows);
}

void run(const BenchOptions& options, const CommonOptions& common, const ProcessClock& process) {
  if (common.executor == "graph")
    throw Error(ErrorKind::CommandLine,
                "bench times the virtual machine; leave --executor graph out");
  if (common.executor == "reference")
    throw Error(ErrorKind::CommandLine,
                "bench times compiled programs; leave --executor reference out");
  if (!options.operation.name.empty()) {
    if (!options.trace.file.empty())
      throw Error(ErrorKind::CommandLine,
                  "--trace follows a model's calls; leave it out with --op");
    OperatorBench operation = options.operation;
    operation.shapes = options.arguments;
    operation.json = common.json;
    const CompileOptions compile = compile_options(common);
    if (compile.device == DeviceKind::Cuda) run_gpu_operator_bench(operation, compile);
    else run_operator_bench(operation, compile);
    return;
  }
  if (options.arguments.size() != 1)
    throw Error(ErrorKind::CommandLine, "bench takes one MODEL (or --op NAME and its shapes)");
  if (!options.tokens.empty() && !options.model.call.empty())
    throw Error(ErrorKind::CommandLine,
                "bench MODEL takes texts with --tokens, or one call with --shape and --input: "
                "leave one of both out");
  if (options.tokens.empty() && (options.batch > 0 || options.batch_tokens > 0 || options.ragged))
    throw Error(ErrorKind::CommandLine,
                "bench MODEL needs --tokens FILE, one JSON list of token ids a line");
  if (options.tokens.empty()) {
    ModelBench bench = options.model;
    bench.model = options.arguments[0];
    bench.json = common.json;
    CompileOptions compile = compile_options(common);
    compile.outputs = options.outputs;
    traced(options.trace, compile,
           [&](const CompileOptions& compile) { run_model_bench(bench, compile, process); });
    return;
  }
  if ((options.batch > 0) == (options.batch_tokens > 0)) {
    throw Error(ErrorKind::CommandLine, "bench MODEL needs one of --batch N and --batch-tokens N");
  }
  traced(options.trace, compile_options(common), [&](const CompileOptions& compile) {
    print(measure(options, compile, process), common.json);
  });
}

}  // namespace

void add_bench(CLI::App& app, CommonOptions& common, Action& action, const ProcessClock& clock) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench",
                                         "time a model on inputs of a shape, a text encoder over a "
                                         "file of tokens, or one operator against a library");
  command->add_option(
      "MODEL", options->arguments,
      "a model; with --op shapes instead: M,N,K of a matmul, BATCH,HEADS,LENGTH,HEAD of attention");
  command->add_option("--tokens", options->tokens, "one JSON list of token ids a line");
  command->add_option("--batch", options->batch, "texts a batch")->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--batch-tokens", options->batch_tokens,
                   "tokens a batch, at most (at least one text): useful ones where calls are "
                   "packed, else padded")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--order", options->order, "arrival: as in the file; sorted: by length")
      ->check(CLI::IsMember({"arrival", "sorted"}))
      ->capture_default_str();
  command->add_flag(
      "--ragged", options->ragged,
      "give each batch's texts end to end, without padding and mask, and take results so");
  add_outputs_option(*command, options->outputs);
  command->add_option("--repeat", options->repeat, "timed passes, of which the best counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--op", options->operation.name, "time one operator instead")
      ->check(CLI::IsMember({"matmul", "attention"}));
  command
      ->add_option("--vs", options->operation.library,
                   "library to compare with: mkl or onednn on the CPU, cublas on CUDA, or none")
      ->check(CLI::IsMember({"mkl", "onednn", "cublas", "none"}))
      ->capture_default_str();
  command->add_option("--library-path", options->operation.library_path,
                      "the library's file, where the loader does not find it");
  add_model_bench_options(*command, options->model);
  add_trace_options(*command, options->trace);
  add_common_options(*command, common);
  command->callback([&common, &action, options, &clock] {
    action = [&common, options, &clock] { run(*options, common, clock); };
  });
}

}  // namespace anydim::tools
