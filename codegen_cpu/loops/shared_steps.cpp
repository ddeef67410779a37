#include "codegen_cpu/loops/shared_steps.h"

#include <algorithm>
#include <set>

#include "codegen_cpu/work_estimate.h"
#include "ir/loops/kernel_program.h"

namespace anydim::codegen_cpu {

namespace {

// Cycles of a vector from which on reading is cheaper than computing.
constexpr double worth_keeping = 4;

double own_cycles(const ScalarStep& step) {
  if (step.is<ir::step::Apply>()) return operation_cycles(step);
  return step.is<ir::step::CheckedIndex>() ? 2 : 0;
}

// What steps of one part vary with, and what they cost along a row.
class RowSteps {
 public:
  RowSteps(const ir::KernelProgram& program, const ir::MapPart& part) : program_(program) {
    for (const ir::Iteration& iteration : part.space) outer_.insert(iteration.variable);
    const DimLeaf run = part.space.back().variable;
    outer_.erase(run);
    const std::size_t count = program.steps().size();
    along_.resize(count);
    across_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto position = static_cast<std::int32_t>(i);
      for (const DimLeaf& leaf : program.leaves(position)) {
        along_[i] = along_[i] || leaf == run;
        across_[i] = across_[i] || outer_.contains(leaf);
      }
      for (const std::int32_t needed : needs(position)) {
        along_[i] = along_[i] || along_[static_cast<std::size_t>(needed)];
        across_[i] = across_[i] || across_[static_cast<std::size_t>(needed)];
      }
    }
  }

  // Operands and checked indices.
  std::set<std::int32_t> needs(std::int32_t position) const {
    const auto& operands = program_.step(position).operands;
    std::set<std::int32_t> needed(operands.begin(), operands.end());
    for (const DimLeaf& leaf : program_.leaves(position))
      if (leaf.is_step()) needed.insert(leaf.step());
    return needed;
  }

  bool is_shared(std::int32_t position) const {
    const auto i = static_cast<std::size_t>(position);
    return along_[i] && !across_[i];
  }

  // Cycles of the step and of all that it needs along the row.
  double cycles(std::int32_t position) const {
    std::set<std::int32_t> all{position};
    double cycles = 0;
    while (!all.empty()) {
      const std::int32_t last = *all.rbegin();
      all.erase(std::prev(all.end()));
      if (!along_[static_cast<std::size_t>(last)]) continue;
      cycles += own_cycles(program_.step(last));
      all.merge(needs(last));
    }
    return cycles;
  }

 private:
  const ir::KernelProgram& program_;
  std::set<DimLeaf> outer_;
  std::vector<bool> along_, across_;
};

bool may_be_kept(const ScalarStep& step) {
  return step.is<ir::step::CheckedIndex>() ||
         (step.is<ir::step::Apply>() && step.dtype != ir::DType::Bool);
}

}  // namespace

SharedSteps shared_steps(const ir::MapPart& part, const ir::SymbolTable& symbols) {
  SharedSteps shared;
  const std::vector<ScalarStep>& steps = part.program.steps;
  double all = 0;
  for (const ScalarStep& step : steps) all += own_cycles(step);
  if (part.space.size() < 2 || all < worth_keeping) return shared;
  const std::vector<std::int32_t> roots = ir::roots_of(part);
  ir::SymbolTable own = symbols;
  const ir::KernelProgram program(part.program, roots, 0, own);
  const RowSteps rows(program, part);
  shared.left_out.assign(steps.size(), true);
  // What a store needs besides its value: its index, at which checked ones may stand.
  std::set<std::int32_t> open(roots.begin(), roots.end());
  for (const ir::Store& store : part.stores)
    for (const Dim& dim : store.index)
      for (const std::int32_t index : ir::steps_mentioned(dim)) open.insert(index);
  while (!open.empty()) {
    const std::int32_t last = *open.rbegin();
    open.erase(std::prev(open.end()));
    if (rows.is_shared(last) && may_be_kept(program.step(last)) &&
        rows.cycles(last) >= worth_keeping) {
      shared.kept.push_back(last);
      continue;
    }
    shared.left_out[static_cast<std::size_t>(last)] = false;
    open.merge(rows.needs(last));
  }
  std::ranges::sort(shared.kept);
  return shared;
}

double cycles_saved(const ir::MapPart& part, const SharedSteps& shared) {
  double saved = -static_cast<double>(shared.kept.size());
  for (std::size_t i = 0; i < shared.left_out.size(); ++i)
    if (shared.left_out[i]) saved += own_cycles(part.program.steps[i]);
  return saved;
}

}  // namespace anydim::codegen_cpu
