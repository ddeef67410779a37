// anydim explain: what a call of a given shape would do, and why.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/explain_gpu.h"
#include "api/output_files.h"
#include "tools/call_inputs.h"
#include "tools/command.h"
#include "tools/emit_kernels.h"
#include "tools/output.h"

namespace anydim::tools {

namespace {

struct ExplainOptions {
  std::string model;
  std::vector<std::string> shapes;
  std::vector<std::string> outputs;
  std::string page;
  std::string gpu;                // a part that need not be here
  std::vector<std::string> emit;  // what, and where to
  int repeat = 5;
  std::vector<int> at_threads;
  double memory_bandwidth = 0;  // GB/s; 0: not given
};

using Named = std::vector<std::pair<std::string, std::int64_t>>;

nlohmann::json object_of(const Named& values) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, value] : values) object[name] = value;
  return object;
}

nlohmann::json to_json(const std::vector<TableRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const TableRow& row : rows) {
    list.push_back({{"region", row.region},
                    {"bucket", row.bucket},
                    {"schedule", row.schedule},
                    {"chosen", row.chosen},
                    {"expected_us", 1e6 * row.expected_seconds}});
  }
  return list;
}

nlohmann::json to_json(const CallAtThreads& call) {
  nlohmann::json launches = nlohmann::json::array();
  for (const LaunchAtThreads& launch : call.launches)
    launches.push_back({{"schedule", launch.schedule},
                        {"tasks", launch.tasks},
                        {"modelled_us", 1e6 * launch.seconds},
                        {"efficiency", launch.efficiency}});
  return {{"threads", call.threads},
          {"modelled_us", 1e6 * call.seconds},
          {"efficiency", call.efficiency},
          {"launches", launches}};
}

nlohmann::json to_json(const CallExplanation& call) {
  nlohmann::json launches = nlohmann::json::array();
  for (const LaunchExplanation& launch : call.launches) {
    launches.push_back({{"region", launch.region},
                        {"source", launch.source},
                        {"dims", object_of(launch.dims)},
                        {"keys", object_of(launch.keys)},
                        {"bucket", launch.bucket},
                        {"schedule", launch.schedule},
                        {"chosen", launch.chosen},
                        {"kernel", launch.kernel},
                        {"code_bytes", launch.code_bytes},
                        {"warnings", launch.warnings},
                        {"tasks", launch.tasks},
                        {"estimated_us", 1e6 * launch.estimated_seconds},
                        {"measured_us", 1e6 * launch.measured_seconds}});
  }
  nlohmann::json ceiling = {{"expression", call.arena_ceiling}};
  if (call.arena_ceiling_bytes) ceiling["bytes"] = *call.arena_ceiling_bytes;
  nlohmann::json scaling = nlohmann::json::array();
  for (const CallAtThreads& at : call.scaling) scaling.push_back(to_json(at));
  return {{"symbols", object_of(call.symbols)},
          {"launches", launches},
          {"tables", to_json(call.tables)},
          {"exact", to_json(call.exact)},
          {"scaling", scaling},
          {"stages", call.stages},
          {"fetches", call.fetches},
          {"call_us", 1e6 * call.call_seconds},
          {"memory",
           {{"arena", call.memory.arena},
            {"scratch", call.memory.scratch},
            {"outputs", call.memory.outputs},
            {"constants", call.constant_bytes},
            {"code", call.kernels.code_bytes},
            {"arena_ceiling", ceiling}}},
          {"kernels",
           {{"entries", call.kernels.entries},
            {"from_cache", call.kernels.from_cache},
            {"compiled", call.kernels.compiled},
            {"failed", call.kernels.failed},
            {"pending", call.kernels.pending}}}};
}

nlohmann::json to_json(const GpuPlan& plan) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const PlannedKernel& kernel : plan.kernels) {
    nlohmann::json entries = nlohmann::json::array();
    for (const PlannedEntry& entry : kernel.entries)
      entries.push_back({{"name", entry.name},
                         {"grid", entry.grid},
                         {"threads", entry.threads},
                         {"cluster_blocks", entry.cluster_blocks},
                         {"shared_bytes", entry.shared_bytes},
                         {"registers", entry.registers},
                         {"blocks_per_multiprocessor", entry.blocks_per_multiprocessor}});
    kernels.push_back({{"region", kernel.row.region},
                       {"bucket", kernel.row.bucket},
                       {"schedule", kernel.row.schedule},
                       {"chosen", kernel.row.chosen},
                       {"expected_us", 1e6 * kernel.row.expected_seconds},
                       {"entries", entries}});
  }
  nlohmann::json object = {{"part", plan.part}, {"kernels", kernels}};
  if (!plan.launches) return object;
  nlohmann::json launches = nlohmann::json::array();
  for (const PlannedLaunch& launch : *plan.launches)
    launches.push_back({{"kernel", launch.kernel},
                        {"keys", object_of(launch.keys)},
                        {"estimated_us", 1e6 * launch.estimated_seconds}});
  object["launches"] = launches;
  return object;
}

// Without a driver: nothing runs.
void plan(const ExplainOptions& options, const CommonOptions& common,
          const CompileOptions& compile_options) {
  if (compile_options.device != DeviceKind::Cuda)
    throw Error(ErrorKind::CommandLine, "--gpu names a part; give --device cuda too");
  std::optional<EmittedCode> code;
  if (!options.emit.empty()) code = parse_emitted_code(options.emit.front());
  ir::Module module = load_model(options.model);
  const GivenCall call({.shapes = options.shapes, .inputs = {}}, module, "explain");
  const auto extents = call.extents(inputs_of(module.functions.at(0)));
  const GpuPlan plan = explain_gpu(options.gpu, std::move(module), compile_options, extents);
  std::vector<std::filesystem::path> files;
  if (code) files = emit_kernels(plan, *code, options.emit.at(1));
  if (common.json) {
    nlohmann::json object = to_json(plan);
    for (const std::filesystem::path& file : files) object["files"].push_back(file.string());
    put_json(object);
    return;
  }
  put_text(to_text(plan));
  for (const std::filesystem::path& file : files) put("{}\n", file.string());
}

void run(const ExplainOptions& options, const CommonOptions& common) {
  if (common.executor == "graph")
    throw Error(ErrorKind::CommandLine,
                "explain shows the virtual machine; leave --executor graph out");
  if (common.executor == "reference") {
    throw Error(ErrorKind::CommandLine,
                "explain shows compiled programs; leave --executor reference out");
  }
  CompileOptions compile_options = tools::compile_options(common);
  compile_options.outputs = options.outputs;
  const bool deep = !options.page.empty();
  if (!options.emit.empty() && options.gpu.empty())
    throw Error(ErrorKind::CommandLine,
                "--emit writes the kernels of a part; say of which by --gpu and --device cuda");
  if (deep && !options.gpu.empty())
    throw Error(ErrorKind::CommandLine, "--html shows what was measured; leave --gpu out");
  if (options.memory_bandwidth > 0 && options.at_threads.empty())
    throw Error(ErrorKind::CommandLine,
                "--memory-bandwidth is of the machine that --at-threads asks about; give that too");
  if (!options.at_threads.empty() &&
      (compile_options.device != DeviceKind::Cpu || !options.gpu.empty()))
    throw Error(ErrorKind::CommandLine,
                "--at-threads plans for processors; leave --device cuda and --gpu out");
  ThreadScalingOptions scaling{.threads = options.at_threads};
  if (options.memory_bandwidth > 0) scaling.memory_bandwidth = 1e9 * options.memory_bandwidth;
  if (!options.gpu.empty()) return plan(options, common, compile_options);
  if (deep && compile_options.device != DeviceKind::Cpu)
    throw Error(ErrorKind::CommandLine,
                "--html shows what the processor's limits allow; leave --device cuda out");
  if (deep) require_writable(options.page);
  ir::Module module = load_model(options.model);
  const GivenCall call({.shapes = options.shapes, .inputs = {}}, module, "explain");
  const auto model = Model::compile(std::move(module), compile_options);
  const ModelExplanation explanation =
      explain_model(*model, call.extents(*model), options.repeat, nullptr,
                    deep ? ExplanationDepth::Deep : ExplanationDepth::Usual, scaling);
  if (deep) {
    const int threads = program_of(*model)->pool().threads();
    tuner::write_text_file(options.page, explain_page(options.model, explanation,
                                                      {{"processor", processor_name()},
                                                       {"threads", std::to_string(threads)}}));
  }
  if (common.json) {
    nlohmann::json object = to_json(explanation.call);
    object["padding"] = explanation.padding;
    object["equal_dims"] = explanation.equal_dims;
    put_json(object);
    return;
  }
  if (deep) put("{}\n", options.page);
  else put_text(to_text(explanation));
}

}  // namespace

void add_explain(CLI::App& app, CommonOptions& common, Action& action) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command =
      app.add_subcommand("explain", "show regions, buckets, schedules, times and memory of a call");
  command->add_option("MODEL", options->model, "an ONNX model or a module in text form")
      ->required();
  add_shape_option(*command, options->shapes);
  add_outputs_option(*command, options->outputs);
  command->add_option("--repeat", options->repeat, "measured calls, of which the median is shown")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--html", options->page,
                      "a page of the same, for a browser: regions, buckets, roofline, a timeline; "
                      "in place of text");
  command
      ->add_option("--at-threads", options->at_threads,
                   "numbers of threads with commas, which need not be here: each launch's tasks, "
                   "time and parallel efficiency on so many, by the cost model")
      ->delimiter(',')
      ->check(CLI::Range(1, most_threads()));
  command
      ->add_option("--memory-bandwidth", options->memory_bandwidth,
                   "with --at-threads: what the memory of that machine gives all threads together, "
                   "GB/s; default: as much as they ask for")
      ->check(CLI::Range(0.001, 1e6));
  command->add_option("--gpu", options->gpu,
                      "with --device cuda: kernels, schedules, tables and estimates for this part "
                      "(h200, a100, ...), which need not be here; nothing runs");
  command
      ->add_option("--emit", options->emit,
                   "with --gpu: the kernels as cuda, ptx or sass, one file each in a folder")
      ->expected(2)
      ->type_name("FORM DIR");
  add_common_options(*command, common);
  command->callback(
      [&common, &action, options] { action = [&common, options] { run(*options, common); }; });
}

}  // namespace anydim::tools
