// anydim run: inputs from files, outputs to files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/output_files.h"
#include "api/recorded_calls.h"
#include "tools/call_inputs.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/trace_option.h"

namespace anydim::tools {

namespace {

struct RunOptions {
  std::string model;
  std::vector<std::string> inputs;
  std::string folder;
  std::vector<std::string> outputs;
  std::string record, record_calls;
  TraceOptions trace;
};

struct Results {
  std::vector<std::string> names;
  std::vector<ir::Tensor> tensors;
  std::map<std::string, std::int64_t> schedules{};  // rows of the tables, by who chose them
};

Results run_reference(ir::Module module, const RunOptions& options, const CompileOptions& compile,
                      const NamedTensors& inputs) {
  narrow_dims(module, compile.dims);
  module = keep_outputs(std::move(module), options.outputs);
  module = lower_precision(std::move(module), compile);
  const ir::Function& entry = module.functions.at(0);
  if (!options.folder.empty()) check_output_names(entry.result_names);
  return {entry.result_names, evaluate_reference(module, arrange_inputs(inputs_of(entry), inputs))};
}

Results run_compiled(ir::Module module, const RunOptions& options,
                     const CompileOptions& compile_options, const NamedTensors& inputs) {
  const auto model = Model::compile(std::move(module), compile_options);
  Results results{.names = model->output_names(), .tensors = {}};
  if (!options.folder.empty()) check_output_names(results.names);
  ModelContext context(model);
  const auto recorder =
      options.record.empty() ? nullptr : std::make_shared<tuner::TraceRecorder>(trace_of(*model));
  context.record(recorder);
  const std::vector<ir::Tensor> tensors = arrange_inputs(model->inputs(), inputs);
  results.tensors = context.run(tensors);
  if (recorder != nullptr) tuner::record_trace(options.record, recorder->trace());
  if (!options.record_calls.empty() && !keep_call(options.record_calls, model->inputs(), tensors) &&
      compile_options.warn)
    compile_options.warn(fmt::format("{}: this call is not kept: there are {} others",
                                     options.record_calls, most_kept_calls));
  results.schedules =
      count_by_choice(table_rows(model->packing() ? *model->packed() : *model->padded()));
  return results;
}

// One program for the shapes of these inputs alone, with every kernel in place.
Results run_graph(ir::Module module, const RunOptions& options, CompileOptions compile_options,
                  const NamedTensors& inputs) {
  fix_shapes(module, arrange_inputs(inputs_of(module.functions.front()), inputs));
  compile_options.static_only = true;
  std::shared_ptr<const runtime::Executable> executable;
  try {
    executable = compile(std::move(module), compile_options);
  } catch (const Error& error) {
    // The module was right as long as its shapes were open.
    if (error.kind() == ErrorKind::Malformed) throw Error(ErrorKind::Inputs, error.what());
    throw;
  }
  Results results;
  for (const ir::Code::Output& output : executable->program().entry().outputs)
    results.names.push_back(output.name);
  if (!options.folder.empty()) check_output_names(results.names);
  executable->kernels().complete();
  results.tensors =
      runtime::Context(executable).run(arrange_inputs(inputs_of(executable->program()), inputs));
  return results;
}

void print_results(const Results& results, const std::vector<std::filesystem::path>& files,
                   bool json) {
  nlohmann::json listed = nlohmann::json::array();
  for (std::size_t i = 0; i < results.names.size(); ++i) {
    const ir::Tensor& tensor = results.tensors[i];
    if (json) {
      nlohmann::json one = {{"name", results.names[i]},
                            {"dtype", ir::name_of(tensor.dtype())},
                            {"dims", tensor.dims()}};
      if (!files.empty()) one["file"] = files[i].string();
      listed.push_back(one);
      continue;
    }
    std::string values;
    constexpr std::int64_t shown = 6;
    for (std::int64_t e = 0; e < std::min(shown, tensor.elements()); ++e) {
      values += ir::is_float(tensor.dtype()) ? fmt::format(" {:.6g}", tensor.real_at(e))
                                             : fmt::format(" {}", tensor.integer_at(e));
    }
    put("{}: {}{}{}{}\n", ir::printable(results.names[i]),
        ir::shape_text(tensor.dtype(), tensor.dims()), values.empty() ? "" : " =" + values,
        tensor.elements() > shown ? " ..." : "", files.empty() ? "" : " -> " + files[i].string());
  }
  if (json) put_json(nlohmann::json{{"outputs", listed}, {"schedules", results.schedules}});
}

void run(const RunOptions& options, const CommonOptions& common) {
  const bool machine = common.executor != "reference" && common.executor != "graph";
  for (const auto& [option, value] :
       {std::pair("--record", &options.record), std::pair("--record-calls", &options.record_calls),
        std::pair("--trace", &options.trace.file)})
    if (!value->empty() && !machine)
      throw Error(ErrorKind::CommandLine, "{} needs the virtual machine, not --executor {}", option,
                  common.executor);
  CompileOptions compile = compile_options(common);
  compile.outputs = options.outputs;
  if (compile.masked_rows == MaskedRows::Zero && !machine && compile.warn)
    compile.warn(
        fmt::format("masked rows of results are not zero but as the model computes them: "
                    "--executor {} runs it as it is",
                    common.executor));
  const NamedTensors inputs = read_inputs(options.inputs);
  ir::Module module = load_model(options.model);
  Results results;
  traced(options.trace, compile, [&](const CompileOptions& compile) {
    results =
        common.executor == "reference" ? run_reference(std::move(module), options, compile, inputs)
        : common.executor == "graph"   ? run_graph(std::move(module), options, compile, inputs)
                                       : run_compiled(std::move(module), options, compile, inputs);
  });
  std::vector<std::filesystem::path> files;
  if (!options.folder.empty())
    files = write_outputs(options.folder, results.names, results.tensors);
  print_results(results, files, common.json);
}

}  // namespace

void add_run(CLI::App& app, CommonOptions& common, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "run a model on inputs from files");
  command->add_option("MODEL", options->model, "an ONNX model or a module in text form")
      ->required();
  command
      ->add_option("--input", options->inputs,
                   "NAME=FILE.npy, or FILE.pb with an ONNX TensorProto (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--output", options->folder,
                      "folder for the outputs, NAME.npy each; without it they are only shown");
  add_outputs_option(*command, options->outputs);
  command->add_option(
      "--record", options->record,
      "file that the shapes met are added to, also those that the call found inside");
  command->add_option("--record-calls", options->record_calls,
                      "folder that the call's inputs are kept in, for tuning on real values");
  add_trace_options(*command, options->trace);
  add_common_options(*command, common);
  command->callback(
      [&common, &action, options] { action = [&common, options] { run(*options, common); }; });
}

}  // namespace anydim::tools
