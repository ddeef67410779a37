// What every pass is handed, and the list of passes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/backend.h"
#include "ir/cancellation.h"
#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/shapes/infer.h"
#include "ir/tuning_table.h"
#include "ir/type.h"

namespace anydim::passes {

struct PipelineOptions {
  std::vector<std::string> outputs;                // results to keep, in this order; empty: all
  ir::DType precision = ir::DType::F32;            // of products' operands: f32, bf16, f16 or i8
  int threads = 1;                                 // that launches will use, for estimates
  std::vector<std::string> skipped;                // passes to leave out
  std::function<void(const std::string&)> warn{};  // of what is wrong and does no harm; optional
  bool verify = false;                             // check the module after every pass
  const Cancellation* cancellation = nullptr;      // asked between passes and regions
  // Called after a pass that changed the module's text, and with the seconds it took. Both
  // optional.
  std::function<void(std::string_view pass, const ir::Module&)> on_change;
  std::function<void(std::string_view pass, double seconds)> on_time;
};

// Facts that passes hand on beside the module.
struct PassContext {
  const PipelineOptions& options;
  const ir::Backend* backend = nullptr;     // null: no kernels are chosen
  const ir::TuningTable* tuning = nullptr;  // null: the cost model alone chooses
  // ops that stayed dynamic and why, set by dynamic_to_static
  std::vector<std::string> unresolved{};
  // Runs a module of constants alone and gives its results; nullopt where the run fails, as it then
  // would in a call. Optional.
  std::function<std::optional<std::vector<ir::Tensor>>(ir::Module)> compute{};
  std::vector<ir::DispatchTable> tables{};  // by region, set by choose_buckets
};

using PassFunction = void (*)(ir::Module&, PassContext&);

// The entry function of each row of passes.def. The head of passes/NAME.cpp says what holds before
// and after it; that of a branch, which finds more than a module, is in passes/NAME.h.
#define ANYDIM_PASS(name, reason) void name(ir::Module& module, PassContext& context);
#define ANYDIM_BRANCH(name, reason) ANYDIM_PASS(name, reason)
#define ANYDIM_FORK()
#include "passes/passes.def"
#undef ANYDIM_FORK
#undef ANYDIM_BRANCH
#undef ANYDIM_PASS

struct Pass {
  std::string_view name;
  PassFunction run;
  std::string_view reason;  // why it stands where it stands
};

// The pipeline, in order.
std::span<const Pass> pipeline_passes();
// Passes beside it (ANYDIM_BRANCH), which run where they are named alone. What else they find their
// headers' other functions give; with run_passes() they leave a module alone that they are not for,
// and warn why.
std::span<const Pass> branch_passes();

// The passes before the fork of the list (ANYDIM_FORK), without the skipped ones: what the branches
// there read. Running the whole pipeline on its result changes nothing of
// what is done already.
void run_to_fork(ir::Module& module, PassContext& context);

// Runs the named passes in this order (Error{CommandLine} for an unknown name), or the whole
// pipeline where `names` is empty.
void run_passes(ir::Module& module, PassContext& context, std::span<const std::string> names = {});

}  // namespace anydim::passes
