#include <algorithm>
#include <chrono>

#include "ir/error.h"
#include "ir/text/print.h"
#include "ir/verify.h"
#include "passes/pass.h"

namespace anydim::passes {

namespace {

constexpr Pass all_passes[] = {
#define ANYDIM_PASS(name, reason) {#name, name, reason},
#define ANYDIM_BRANCH(name, reason)
#define ANYDIM_FORK()
#include "passes/passes.def"
#undef ANYDIM_FORK
#undef ANYDIM_BRANCH
#undef ANYDIM_PASS
};

constexpr Pass all_branches[] = {
#define ANYDIM_PASS(name, reason)
#define ANYDIM_BRANCH(name, reason) {#name, name, reason},
#define ANYDIM_FORK()
#include "passes/passes.def"
#undef ANYDIM_FORK
#undef ANYDIM_BRANCH
#undef ANYDIM_PASS
};

// How many passes stand before the fork.
constexpr std::size_t fork = [] {
  std::size_t passes = 0, before = 0;
#define ANYDIM_PASS(name, reason) ++passes;
#define ANYDIM_BRANCH(name, reason)
#define ANYDIM_FORK() before = passes;
#include "passes/passes.def"
#undef ANYDIM_FORK
#undef ANYDIM_BRANCH
#undef ANYDIM_PASS
  return before;
}();

void run_one(const Pass& pass, ir::Module& module, PassContext& context) {
  const PipelineOptions& options = context.options;
  check_cancelled(options.cancellation);
  std::string before = options.on_change ? ir::print(module) : std::string();
  auto begin = std::chrono::steady_clock::now();
  pass.run(module, context);
  if (options.on_time)
    options.on_time(
        pass.name, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (options.verify) ir::verify(module);
  if (options.on_change && ir::print(module) != before) options.on_change(pass.name, module);
}

const Pass* found(std::span<const Pass> passes, std::string_view name) {
  const auto at = std::ranges::find(passes, name, &Pass::name);
  return at == passes.end() ? nullptr : &*at;
}

const Pass& named(std::string_view name) {
  for (const std::span<const Pass> passes : {pipeline_passes(), branch_passes()})
    if (const Pass* pass = found(passes, name)) return *pass;
  throw Error(ErrorKind::CommandLine, "there is no pass named '{}'", name);
}

void check_skipped(const PassContext& context) {
  for (const std::string& name : context.options.skipped) {
    named(name);
    if (found(all_branches, name) != nullptr)
      throw Error(
          ErrorKind::CommandLine,
          "'{}' stands beside the pipeline, which does not run it: there is nothing to skip", name);
  }
}

void run_all(std::span<const Pass> passes, ir::Module& module, PassContext& context) {
  const std::vector<std::string>& skipped = context.options.skipped;
  for (const Pass& pass : passes)
    if (std::ranges::find(skipped, pass.name) == skipped.end()) run_one(pass, module, context);
}

}  // namespace

std::span<const Pass> pipeline_passes() { return all_passes; }
std::span<const Pass> branch_passes() { return all_branches; }

void run_to_fork(ir::Module& module, PassContext& context) {
  check_skipped(context);
  run_all(pipeline_passes().first(fork), module, context);
}

void run_passes(ir::Module& module, PassContext& context, std::span<const std::string> names) {
  check_skipped(context);
  if (names.empty()) return run_all(pipeline_passes(), module, context);
  for (const std::string& name : names) run_one(named(name), module, context);
}

}  // namespace anydim::passes
