// anydim explain: what a call of a given shape would do, and why.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/output.h"

namespace anydim::tools {

namespace {

struct ExplainOptions {
  std::string model;
  std::vector<std::string> shapes;
  std::vector<std::string> outputs;
  int repeat = 5;
};

using Named = std::vector<std::pair<std::string, std::int64_t>>;

std::string listed(const Named& values) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value);
  return text.empty() ? "none" : text;
}

nlohmann::json object_of(const Named& values) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, value] : values) object[name] = value;
  return object;
}

// Extents that a call needs: every dim of every input, from --shape.
std::vector<ir::Tensor> make_inputs(const std::vector<InputInfo>& inputs, const std::vector<InputShape>& shapes, std::int64_t integer) {
  std::map<std::string, std::int64_t> symbols;
  for (const InputShape& shape : shapes) {
    for (const InputInfo& input : inputs) {
      for (std::size_t i = 0; input.name == shape.input && i < std::min(input.dims.size(), shape.dims.size()); ++i) {
        if (shape.dims[i] && input.dims[i].kind() == ir::Dim::Kind::Symbol) symbols.emplace(input.dims[i].leaf().symbol, *shape.dims[i]);
      }
    }
  }
  std::vector<ir::Tensor> tensors;
  for (const InputInfo& input : inputs) {
    std::vector<std::int64_t> dims;
    for (const ir::Dim& dim : input.dims) {
      dims.push_back(dim.evaluate([&](const ir::DimLeaf& leaf) {
        const auto found = symbols.find(leaf.symbol);
        if (found == symbols.end()) {
          throw Error(ErrorKind::CommandLine, fmt::format("explain needs a number for '{}' of input {}; give it with --shape {}=...",
                                                          leaf.symbol, to_string(input), input.name));
        }
        return found->second;
      }));
    }
    ir::Tensor tensor(input.dtype, dims);
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (ir::is_float(input.dtype)) tensor.set_real(i, 0.01 * static_cast<double>(i % 100));
      else tensor.set_integer(i, integer);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

CallExplanation explain_way_of(const Model& model, const std::vector<ir::Tensor>& inputs, int repeat) {
  const auto packed = model.packing() ? runtime::pack_inputs(*model.packing(), inputs) : std::nullopt;
  const auto executable = packed ? model.packed() : model.padded();
  executable->kernels().complete();
  runtime::Context context(executable);
  return explain_call(context, packed ? packed->tensors : inputs, repeat);
}

// Integers of 1 mean something to most models (a token, an unmasked place); where a model refuses them, 0 fits every table.
CallExplanation explain_with_some_inputs(const Model& model, const std::vector<InputShape>& shapes, int repeat) {
  try {
    return explain_way_of(model, make_inputs(model.inputs(), shapes, 1), repeat);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Inputs) throw;
  }
  return explain_way_of(model, make_inputs(model.inputs(), shapes, 0), repeat);
}

std::string padding_of(const Model& model) {
  if (!model.packing()) return "kept: " + model.padded_because();
  std::string text = "removed: rows that the mask hides are not computed";
  if (model.packing()->ranges_of_kept_rows) text += "; activations are quantised by the range of the others";
  if (model.packing()->limited_inputs.empty()) return text;
  text += fmt::format("; in calls with an element beyond {:.6g} either way in", model.packing()->input_limit);
  for (const std::size_t input : model.packing()->limited_inputs) text += fmt::format(" {}", model.inputs()[input].name);
  return text + " they are";
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
                        {"tasks", launch.tasks},
                        {"estimated_us", 1e6 * launch.estimated_seconds},
                        {"measured_us", 1e6 * launch.measured_seconds}});
  }
  nlohmann::json ceiling = {{"expression", call.arena_ceiling}};
  if (call.arena_ceiling_bytes) ceiling["bytes"] = *call.arena_ceiling_bytes;
  return {{"symbols", object_of(call.symbols)},
          {"launches", launches},
          {"tables", to_json(call.tables)},
          {"exact", to_json(call.exact)},
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

void print(const std::vector<TableRow>& rows) {
  for (const TableRow& row : rows)
    put("    {}  {}  {}: {}, {:.2f} us\n", row.region, row.bucket, row.schedule, row.chosen, 1e6 * row.expected_seconds);
}

void print(const CallExplanation& call) {
  put("symbols: {}\n", listed(call.symbols));
  double estimated = 0, measured = 0;
  for (std::size_t i = 0; i < call.launches.size(); ++i) {
    const LaunchExplanation& launch = call.launches[i];
    estimated += launch.estimated_seconds;
    measured += launch.measured_seconds;
    put("\n{:3} {}  from {}\n", i, launch.region, launch.source.empty() ? "no node" : launch.source);
    put("    dims {}; keys {}; bucket {}\n", listed(launch.dims), listed(launch.keys), launch.bucket);
    put("    schedule {} ({}); {} tasks; {} bytes of code, {}\n", launch.schedule, launch.chosen, launch.tasks, launch.code_bytes,
        launch.kernel);
    put("    estimated {:.2f} us, measured {:.2f} us\n", 1e6 * launch.estimated_seconds, 1e6 * launch.measured_seconds);
  }
  put("\ntables, tried from above\n");
  print(call.tables);
  if (!call.exact.empty()) put("\nkernels for single sizes\n");
  print(call.exact);
  put("\nlaunches: {}, estimated {:.1f} us, measured {:.1f} us; the whole call {:.1f} us; {} shape stages, {} fetches\n",
      call.launches.size(), 1e6 * estimated, 1e6 * measured, 1e6 * call.call_seconds, call.stages, call.fetches);
  put("memory: arena {} bytes, scratch {}, outputs {}, constants {}, code {}\n", call.memory.arena, call.memory.scratch,
      call.memory.outputs, call.constant_bytes, call.kernels.code_bytes);
  put("arena ceiling: {} bytes{}\n", call.arena_ceiling,
      call.arena_ceiling_bytes ? fmt::format(", at most {}", *call.arena_ceiling_bytes) : "");
  put("kernels: {} in the tables, {} from the cache, {} compiled now, {} failed\n", call.kernels.entries, call.kernels.from_cache,
      call.kernels.compiled, call.kernels.failed);
}

void run(const ExplainOptions& options, const CommonOptions& common) {
  if (common.executor == "graph") throw Error(ErrorKind::CommandLine, "explain shows the virtual machine; leave --executor graph out");
  if (common.executor == "reference") {
    throw Error(ErrorKind::CommandLine, "explain shows compiled programs; leave --executor reference out");
  }
  CompileOptions compile_options = tools::compile_options(common);
  compile_options.outputs = options.outputs;
  std::vector<InputShape> shapes;
  for (const std::string& shape : options.shapes) shapes.push_back(parse_input_shape(shape));
  ir::Module module = load_model(options.model);
  {
    ir::Module checked = module;  // names, ranks and contradictions, with messages
    fix_shapes(checked, shapes);
  }
  const auto model = Model::compile(std::move(module), compile_options);
  const CallExplanation call = explain_with_some_inputs(*model, shapes, options.repeat);
  if (common.json) {
    nlohmann::json object = to_json(call);
    object["padding"] = padding_of(*model);
    put_json(object);
    return;
  }
  print(call);
  put("padding: {}\n", padding_of(*model));
}

}  // namespace

void add_explain(CLI::App& app, CommonOptions& common, Action& action) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "show regions, buckets, schedules, times and memory of a call");
  command->add_option("MODEL", options->model, "an ONNX model or a module in text form")->required();
  command->add_option("--shape", options->shapes, "extents of an input: NAME=2x7 (repeatable)")->allow_extra_args(false);
  command->add_option("--outputs", options->outputs, "names of the outputs wanted, with commas; default: all")->delimiter(',');
  command->add_option("--repeat", options->repeat, "measured calls, of which the median is shown")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  add_common_options(*command, common);
  command->callback([&common, &action, options] { action = [&common, options] { run(*options, common); }; });
}

}  // namespace anydim::tools
