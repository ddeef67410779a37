#include "passes/lower.h"

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/loops/loop_form.h"
#include "passes/lower_function.h"

namespace anydim::passes {

using namespace ir;

namespace {

void add_kernels(LoweredModule& shared) {
  const auto& regions = shared.module.regions;
  internal_check(shared.context.tables.size() == regions.size(),
                 "every region has a dispatch table");
  for (std::size_t i = 0; i < regions.size(); ++i) {
    Program::Kernel kernel;
    kernel.region = regions[i];
    kernel.table = shared.context.tables[i];
    kernel.checks = loop_form_of(kernel.region)->checks;
    shared.program.kernels.push_back(std::move(kernel));
  }
}

void collect_callees(const Block& block, std::set<std::uint32_t>& callees) {
  for (const Binding& binding : block.bindings) {
    if (binding.op == Op::call || binding.op == Op::closure) callees.insert(binding.callee);
    for (const Block& nested : binding.blocks) collect_callees(nested, callees);
  }
}

// A call gives the callee's symbols their numbers.
void link_calls(LoweredModule& shared, Code& code, const FunctionLowering& lowering) {
  for (const FunctionLowering::CallSymbols& call : lowering.calls()) {
    auto& instruction = std::get<Code::Call>(code.instructions[call.position]);
    const std::vector<std::string>& theirs =
        shared.program.functions[static_cast<std::size_t>(instruction.function)].leaf_symbols;
    for (const auto& [symbol, id] : call.bound) {
      const auto found = std::find(theirs.begin(), theirs.end(), symbol);
      if (found == theirs.end()) continue;
      instruction.leaves.emplace_back(static_cast<Code::Slot>(found - theirs.begin()),
                                      lowering.slot(id));
    }
  }
}

}  // namespace

Program lower(const Module& module, const PassContext& context) {
  LoweredModule shared{module, context};
  add_kernels(shared);
  std::set<std::uint32_t> callees;
  for (const Function& function : module.functions) collect_callees(function.body, callees);

  FunctionLowering entry(shared, module.functions.at(0), true);
  shared.program.entry() = entry.run();
  std::vector<FunctionLowering> others;
  for (std::size_t i = 1; i < module.functions.size(); ++i)
    others.emplace_back(shared, module.functions[i], false);
  // What calls give lies in a pool, what the entry gives in memory of the run's own: an entry that
  // is called has both codes.
  if (callees.contains(0)) others.emplace_back(shared, module.functions[0], false);
  for (FunctionLowering& other : others) shared.program.functions.push_back(other.run());
  link_calls(shared, shared.program.entry(), entry);
  for (std::size_t i = 0; i < others.size(); ++i)
    link_calls(shared, shared.program.functions[i + 1], others[i]);
  shared.program.arena_ceiling = entry.ceiling();
  shared.program.unbounded = entry.unbounded();
  shared.program.policies = module.policies;
  return std::move(shared.program);
}

}  // namespace anydim::passes
