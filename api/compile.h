// From a module to something that runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "ir/backend.h"
#include "ir/module.h"
#include "runtime/context.h"
#include "runtime/executable.h"

namespace anydim {

// Compiles for options.device: narrows, keeps the outputs asked for, runs the passes, lowers, packs
// weights and brings in one kernel for each region. Runs through runtime::Context; one executable
// serves any number of them. Throws any kind of Error.
std::shared_ptr<const runtime::Executable> compile(ir::Module module,
                                                   const CompileOptions& options = {});

// Where code runs and who generates it.
struct CompileTarget {
  std::shared_ptr<const ir::Backend> backend;
  std::shared_ptr<runtime::Device> device;  // null: this machine's processors
  std::string part{};  // what times hold for: the processor's model, or codegen_cuda::part_text()
};
// What options.device names. Throws Error{Resource}: no such device, no driver, a build without
// that code generator, or a level that this processor lacks.
CompileTarget make_target(const CompileOptions& options = {});
// What compile_for() runs: the module after all passes, lowered. Needs no device.
ir::Program program_for(const CompileTarget& target, ir::Module module,
                        const CompileOptions& options = {});
// compile() for a code generator and device of the caller's.
std::shared_ptr<const runtime::Executable> compile_for(const CompileTarget& target,
                                                       ir::Module module,
                                                       const CompileOptions& options = {});

// Chooses the program's dispatch tables anew, with what options.database holds now, and swaps them
// in behind running calls: none of them waits (runtime/kernel_store.h). The options that the
// executable was compiled with. Throws what load_tuning() throws (api/tuning.h), and changes
// nothing then.
void retune(const runtime::Executable& executable, const CompileTarget& target,
            const CompileOptions& options);

// The module after passes: all of the pipeline where `passes` is empty, else these alone, in this
// order, with the verifier after each. The names are those of pipeline_passes() and
// branch_passes(). Throws Error{CommandLine} for an unknown pass.
struct Optimized {
  ir::Module module;
  // ops that stayed dynamic, each with its reason: "dyn.reshape 'Node' (%y): ..."
  std::vector<std::string> dynamic;
};
Optimized optimize(ir::Module module, const std::vector<std::string>& passes,
                   const CompileOptions& options = {});

// What each region of an optimised module is to the code generators, as text: its loop form, or
// that form's steps placed among its loops. Throws Error{CommandLine} where the module has no
// regions.
enum class RegionStage { Loops, Kernel };
std::string regions_text(const ir::Module& module, RegionStage stage);
// A text of a stage of lowering, which begins with the stage's name: parsed, verified and printed
// again. Nothing where it begins with anything else. Throws Error{Malformed} at the place in the
// text.
struct StageText {
  std::string stage, text;
};
std::optional<StageText> reread_stage(std::string_view text, const std::string& source_name);

// The module after the passes before the pipeline's fork (passes/pass.h), which remove_padding and
// hide_rows read.
ir::Module module_at_fork(ir::Module module, const CompileOptions& options = {});

// The module whose products read operands of options.precision, for evaluate_reference.
ir::Module lower_precision(ir::Module module, const CompileOptions& options);
// Runs the module's entry on the reference evaluator, slowly, after the same narrowing. Inputs in
// the order of its parameters.
std::vector<ir::Tensor> evaluate_reference(const ir::Module& module,
                                           std::vector<ir::Tensor> inputs);
// The module with only these results, for evaluate_reference.
ir::Module keep_outputs(ir::Module module, const std::vector<std::string>& outputs);

struct PassInfo {
  std::string name;
  std::string reason;  // why it stands where it stands
};
std::vector<PassInfo> pipeline_passes();  // in order
std::vector<PassInfo> branch_passes();    // beside them: optimize() takes their names too

}  // namespace anydim
