// anydim opt: a module's text before, between or after passes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/output.h"

namespace anydim::tools {

namespace {

struct OptOptions {
  std::string model;
  std::vector<std::string> passes;
  bool all = true;
  std::vector<std::string> skipped;
  std::vector<std::string> shapes;
  std::vector<std::string> outputs;
  std::string stage = "module";
  std::string rows = "all";
};

std::string listed_passes() {
  std::string text = "Passes, in the pipeline's order:\n";
  const auto add = [&](const std::vector<PassInfo>& passes) {
    for (const PassInfo& pass : passes) text += fmt::format("  {:22} {}\n", pass.name, pass.reason);
  };
  add(pipeline_passes());
  text += "Beside it, for --passes alone:\n";
  add(branch_passes());
  return text;
}

// A text of a stage is what lowering gave: no pass runs on it.
bool print_stage(const OptOptions& options, const CommonOptions& common) {
  const auto text = load_text_file(options.model);
  const auto read =
      text ? reread_stage(*text, std::filesystem::path(options.model).filename().string())
           : std::nullopt;
  if (!read) return false;
  if (options.stage != "module" && options.stage != read->stage)
    throw Error(ErrorKind::CommandLine,
                "{} is the text of the stage {}, not of {}: leave --stage out", options.model,
                read->stage, options.stage);
  if (!options.all || !options.skipped.empty() || !options.shapes.empty() ||
      !options.outputs.empty() || options.rows != "all")
    throw Error(ErrorKind::CommandLine,
                "{} is the text of the stage {}, on which no pass runs: leave --passes, --skip, "
                "--shape, --outputs and --rows out",
                options.model, read->stage);
  if (common.json) put_json(nlohmann::json{{read->stage, read->text}});
  else put_text(read->text);
  return true;
}

void run(const OptOptions& options, const CommonOptions& common) {
  if (print_stage(options, common)) return;
  CompileOptions compile = compile_options(common);
  compile.outputs = options.outputs;
  compile.skipped_passes = options.skipped;
  ir::Module module = load_model(options.model);
  std::vector<InputShape> shapes;
  for (const std::string& shape : options.shapes) shapes.push_back(parse_input_shape(shape));
  fix_shapes(module, shapes);
  narrow_dims(module, compile.dims);
  compile.dims.clear();
  if (options.all) take_dims_as_equal(module);
  // The gate of static programs, which looks at the whole program.
  if (common.executor == "graph") {
    compile.static_only = true;
    program_for(make_target(compile), module, compile);
  }
  if (compile.append_in_place) {
    if (options.rows != "all")
      throw Error(ErrorKind::CommandLine, "--append-in-place is for --rows all");
    module = appending_module(std::move(module), compile).module;
    compile.outputs.clear();
  }
  if (options.rows != "all") {
    module = module_of_rows(std::move(module),
                            options.rows == "packed" ? Rows::Packed : Rows::Ragged, compile);
    compile.outputs.clear();
  }
  if (options.stage == "program") {
    if (!options.all)
      throw Error(ErrorKind::CommandLine,
                  "--stage program shows what the whole pipeline lowers to: leave --passes out");
    const std::string text =
        to_string(program_for(make_target(compile), std::move(module), compile));
    if (common.json) put_json(nlohmann::json{{"program", text}});
    else put_text(text);
    return;
  }
  Optimized result;
  if (!options.all && options.passes.empty()) {
    result.module = std::move(module);
  } else {
    result = optimize(std::move(module), options.all ? std::vector<std::string>{} : options.passes,
                      compile);
  }
  const std::string text =
      options.stage == "module"
          ? ir::print(result.module)
          : regions_text(result.module,
                         options.stage == "loops" ? RegionStage::Loops : RegionStage::Kernel);
  if (common.json) {
    const nlohmann::json report{{"module", text}, {"dynamic", result.dynamic}};
    put_json(report);
    return;
  }
  for (const std::string& reason : result.dynamic) put("// stays dynamic: {}\n", reason);
  put_text(text);
}

}  // namespace

void add_opt(CLI::App& app, CommonOptions& common, Action& action) {
  auto options = std::make_shared<OptOptions>();
  CLI::App* command = app.add_subcommand("opt", "print a module's text after passes");
  command
      ->add_option(
          "MODEL", options->model,
          "an ONNX model, a module in text form, or the text of a stage, as --stage prints it")
      ->required();
  auto* passes =
      command
          ->add_option(
              "--passes", options->passes,
              "run these alone, in this order, with commas; `none`: the module as it was read")
          ->delimiter(',');
  command
      ->add_option("--skip", options->skipped,
                   "leave these passes out of the pipeline, with commas")
      ->delimiter(',')
      ->excludes(passes);
  command
      ->add_option("--shape", options->shapes,
                   "fix an input's extents first: NAME=2x?x7 (repeatable)")
      ->allow_extra_args(false);
  add_outputs_option(*command, options->outputs);
  command
      ->add_option("--stage", options->stage,
                   "module (its text), of each region loops (its loop form) or kernel (its steps "
                   "placed among the loops), or program (what all is lowered to)")
      ->check(CLI::IsMember({"module", "loops", "kernel", "program"}))
      ->capture_default_str();
  command
      ->add_option(
          "--rows", options->rows,
          "all, or those that the mask lets take part: packed (hidden rows are put back at "
          "the end) or ragged (texts end to end)")
      ->check(CLI::IsMember({"all", "packed", "ragged"}))
      ->capture_default_str();
  command->footer([] { return listed_passes(); });
  add_common_options(*command, common);
  command->callback([&common, &action, options, passes] {
    options->all = passes->count() == 0;
    if (options->passes == std::vector<std::string>{"none"}) options->passes.clear();
    action = [&common, options] { run(*options, common); };
  });
}

}  // namespace anydim::tools
