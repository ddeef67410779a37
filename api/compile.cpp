#include "api/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "api/specialize.h"
#include "api/tuning.h"
#include "ir/error.h"
#include "ir/loops/loop_form.h"
#include "ir/loops/loop_form_parse.h"
#include "ir/loops/loop_text_reader.h"
#include "ir/loops/placed_kernel_parse.h"
#include "ir/reference/evaluate.h"
#include "ir/text/lexer.h"
#include "ir/text/parse_program.h"
#include "passes/choose_buckets.h"
#include "passes/lower.h"
#include "passes/require_static.h"
#include "runtime/kernel_cache.h"

namespace anydim {

namespace {

passes::PipelineOptions pipeline_options(const CompileOptions& options) {
  passes::PipelineOptions pipeline;
  pipeline.outputs = options.outputs;
  pipeline.precision = options.precision;
  pipeline.threads = thread_count(options);
  pipeline.skipped = options.skipped_passes;
  pipeline.warn = options.warn;
  pipeline.cancellation = options.cancellation.get();
  return pipeline;
}

void add_policies(ir::Module& module, const CompileOptions& options) {
  module.policies.insert(module.policies.end(), options.policies.begin(), options.policies.end());
  require_device_serves(options.device, module.policies);
}

// Which kernels of the program are specialised to the shapes met.
std::vector<bool> exact_kernels(const ir::Program& program) {
  std::vector<bool> exact;
  for (const ir::Program::Kernel& kernel : program.kernels) {
    const PolicyChoice* choice = ir::find_policy(program.policies, kernel.region.name);
    exact.push_back(choice != nullptr && choice->policy == Policy::Exact);
  }
  return exact;
}

// Choices that a later one for all regions replaces may name what they like.
void check_region_names(const ir::Module& module) {
  for (const PolicyChoice& choice : module.policies | std::views::reverse) {
    if (choice.region.empty()) return;
    if (std::ranges::any_of(module.regions,
                            [&](const ir::Region& region) { return region.name == choice.region; }))
      continue;
    std::vector<std::string> names;
    for (const ir::Region& region : module.regions) names.push_back(region.name);
    throw Error(ErrorKind::CommandLine,
                "policy of the region '{}': the program has no such region; it has {}",
                choice.region, fmt::join(names, ", "));
  }
}

}  // namespace

std::shared_ptr<const runtime::Executable> compile(ir::Module module,
                                                   const CompileOptions& options) {
  return compile_for(make_target(options), std::move(module), options);
}

namespace {

using Compute = decltype(passes::PassContext::compute);

ir::Program lowered(const CompileTarget& target, ir::Module module, const CompileOptions& options,
                    const Compute& compute) {
  narrow_dims(module, options.dims);
  add_policies(module, options);
  const passes::PipelineOptions pipeline = pipeline_options(options);
  const ir::TuningTable tuning = load_tuning(target, options);
  passes::PassContext context{
      .options = pipeline, .backend = target.backend.get(), .tuning = &tuning, .compute = compute};
  passes::run_passes(module, context);
  ir::Program program = passes::lower(module, context);
  check_region_names(module);
  if (options.static_only) passes::require_static(program);
  return program;
}

std::shared_ptr<const runtime::Executable> executable_of(const CompileTarget& target,
                                                         ir::Module module,
                                                         const CompileOptions& options,
                                                         const Compute& compute) {
  auto note_stage = [&, begun = runtime::clock_ticks()](const char* name) mutable {
    const std::uint64_t ended = runtime::clock_ticks();
    if (options.timeline != nullptr && options.timeline->on())
      options.timeline->add({.kind = runtime::TimelineKind::Stage,
                             .note = options.timeline->note({name}),
                             .thread = runtime::this_thread(),
                             .begun = begun,
                             .ticks = ended - begun});
    begun = ended;
  };
  ir::Program program = lowered(target, std::move(module), options,
                                compute);  // the module's constants go as soon as they are packed
  note_stage("passes");

  runtime::ExecutableOptions executable;
  executable.device = target.device;
  if (options.keep_kernels) {
    const auto folder = options.cache_folder.value_or(runtime::default_cache_folder());
    executable.cache = std::make_shared<const runtime::KernelCache>(folder, options.warn);
  }
  executable.memory_limit = options.memory_limit;
  executable.exact = exact_kernels(program);
  executable.keep_originals = options.keep_originals;
  executable.background = options.background;
  executable.warn = options.warn;
  executable.timeline = options.timeline;
  executable.cancellation = options.cancellation.get();
  auto pool = std::make_shared<runtime::WorkerPool>(thread_count(options));
  auto made = std::make_shared<const runtime::Executable>(std::move(program), target.backend,
                                                          std::move(pool), std::move(executable));
  note_stage("general kernels and constants");
  return made;
}

}  // namespace

ir::Program program_for(const CompileTarget& target, ir::Module module,
                        const CompileOptions& options) {
  return lowered(target, std::move(module), options, {});
}

std::shared_ptr<const runtime::Executable> compile_for(const CompileTarget& target,
                                                       ir::Module module,
                                                       const CompileOptions& options) {
  const auto compute = [&](ir::Module constants) -> std::optional<std::vector<ir::Tensor>> {
    CompileOptions once = options;  // that concern the model's own symbols, results and regions
    once.dims.clear();
    once.outputs.clear();
    once.policies.clear();
    once.database.reset();
    once.background = false;
    once.static_only = false;
    const auto executable = executable_of(target, std::move(constants), once, {});
    try {
      return runtime::Context(executable).run({});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Inputs) throw;
      return std::nullopt;
    }
  };
  return executable_of(target, std::move(module), options, compute);
}

void retune(const runtime::Executable& executable, const CompileTarget& target,
            const CompileOptions& options) {
  const ir::TuningTable tuning = load_tuning(target, options);
  const passes::PipelineOptions pipeline = pipeline_options(options);
  const passes::PassContext context{
      .options = pipeline, .backend = target.backend.get(), .tuning = &tuning};
  std::vector<ir::DispatchTable> tables;
  const ir::Program& program = executable.program();
  for (const ir::Program::Kernel& kernel : program.kernels)
    tables.push_back(passes::choose_table(kernel.region, program.policies, context));
  executable.kernels().retune(std::move(tables));
}

std::string regions_text(const ir::Module& module, RegionStage stage) {
  if (module.regions.empty())
    throw Error(ErrorKind::CommandLine,
                "there is no region to show: let the whole pipeline run, whose `fuse` makes "
                "them, on a module that computes something");
  std::string text;
  for (const ir::Region& region : module.regions) {
    const auto form = ir::loop_form_of(region);
    if (!text.empty()) text += "\n";
    text += stage == RegionStage::Loops
                ? ir::region_heading("loops", region.name) + to_string(*form)
                : ir::region_heading("kernel", region.name) + to_string(place_kernel(*form));
  }
  return text;
}

std::optional<StageText> reread_stage(std::string_view text, const std::string& source_name) {
  const ir::TokenStream tokens(text, source_name);
  if (tokens.at("loops")) return StageText{"loops", ir::reread_loop_forms(text, source_name)};
  if (tokens.at("kernel")) return StageText{"kernel", ir::reread_kernels(text, source_name)};
  if (tokens.at("program"))
    return StageText{"program", to_string(ir::parse_program(text, source_name))};
  return std::nullopt;
}

Optimized optimize(ir::Module module, const std::vector<std::string>& names,
                   const CompileOptions& options) {
  narrow_dims(module, options.dims);
  add_policies(module, options);
  passes::PipelineOptions pipeline = pipeline_options(options);
  pipeline.verify = true;
  passes::PassContext context{.options = pipeline};
  passes::run_passes(module, context, names);
  if (!module.regions.empty()) check_region_names(module);
  return {std::move(module), std::move(context.unresolved)};
}

ir::Module module_at_fork(ir::Module module, const CompileOptions& options) {
  const passes::PipelineOptions pipeline = pipeline_options(options);
  passes::PassContext context{.options = pipeline};
  passes::run_to_fork(module, context);
  return module;
}

ir::Module lower_precision(ir::Module module, const CompileOptions& options) {
  const passes::PipelineOptions pipeline = pipeline_options(options);
  passes::PassContext context{.options = pipeline};
  const std::vector<std::string> names{"infer_types", "lower_precision"};
  if (options.precision != ir::DType::F32) passes::run_passes(module, context, names);
  return module;
}

std::vector<ir::Tensor> evaluate_reference(const ir::Module& module,
                                           std::vector<ir::Tensor> inputs) {
  internal_check(!module.functions.empty(), "a module has an entry function");
  ir::Module checked = module;
  release_unread(checked, inputs);
  const passes::PipelineOptions pipeline;
  passes::PassContext context{.options = pipeline};
  const std::vector<std::string> names{"infer_types", "insert_checks"};
  passes::run_passes(checked, context, names);
  return ir::evaluate(checked, checked.functions[0], std::move(inputs));
}

ir::Module keep_outputs(ir::Module module, const std::vector<std::string>& outputs) {
  passes::PipelineOptions pipeline;
  pipeline.outputs = outputs;
  passes::PassContext context{.options = pipeline};
  const std::string name = "select_outputs";
  passes::run_passes(module, context, std::span(&name, 1));
  return module;
}

namespace {

std::vector<PassInfo> infos_of(std::span<const passes::Pass> passes) {
  std::vector<PassInfo> infos;
  for (const passes::Pass& pass : passes)
    infos.push_back({std::string(pass.name), std::string(pass.reason)});
  return infos;
}

}  // namespace

std::vector<PassInfo> pipeline_passes() { return infos_of(passes::pipeline_passes()); }
std::vector<PassInfo> branch_passes() { return infos_of(passes::branch_passes()); }

}  // namespace anydim
