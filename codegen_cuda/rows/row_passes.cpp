#include "codegen_cuda/rows/row_passes.h"

#include <algorithm>
#include <map>
#include <optional>

#include "codegen_cuda/names.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cuda {

namespace {

std::size_t at(std::int32_t position) { return static_cast<std::size_t>(position); }

// Copies steps from one program to the end of another, with what they need.
class Copier {
 public:
  Copier(const ir::ScalarProgram& from, ir::ScalarProgram& to) : from_(from), to_(to) {}

  std::int32_t copy(std::int32_t position) {
    if (const auto done = copied_.find(position); done != copied_.end()) return done->second;
    ScalarStep step = from_.steps.at(at(position));
    for (std::int32_t& operand : step.operands) operand = copy(operand);
    ir::for_each_dim(step, [&](Dim& dim) { dim = renamed(dim); });
    to_.steps.push_back(std::move(step));
    return place(position, ir::last_step(to_));
  }
  // From now on `position` stands for a step of the new program.
  std::int32_t place(std::int32_t position, std::int32_t copy) {
    copied_[position] = copy;
    return copy;
  }

 private:
  Dim renamed(const Dim& dim) {
    return dim.substitute([&](const ir::DimLeaf& leaf) -> std::optional<Dim> {
      if (!leaf.is_step()) return std::nullopt;
      return Dim::of(ir::step_leaf(copy(leaf.step())));
    });
  }

  const ir::ScalarProgram& from_;
  ir::ScalarProgram& to_;
  std::map<std::int32_t, std::int32_t> copied_;
};

bool has_guards(const ir::ScalarProgram& program) {
  return std::any_of(program.steps.begin(), program.steps.end(),
                     [](const ScalarStep& step) { return step.is<ir::step::Guarded>(); });
}

bool depends_on_values(const ScalarStep& load) {
  return ir::any_dim(load, [](const Dim& dim) { return !ir::steps_mentioned(dim).empty(); });
}

}  // namespace

ir::RowForm without_scratch(const ir::RowForm& form) {
  ir::RowForm result = form;
  struct Producer {
    std::size_t stage;
    std::int32_t step;
  };
  std::map<std::int32_t, Producer> producers;
  for (std::size_t number = 0; number < result.stages.size(); ++number) {
    ir::RowStage& stage = result.stages[number];
    ir::ScalarProgram whole;
    Copier own(stage.program, whole);
    for (std::size_t i = 0; i < stage.program.steps.size(); ++i) {
      const ScalarStep& step = stage.program.steps[i];
      const auto position = static_cast<std::int32_t>(i);
      const auto* element = std::get_if<ir::step::Scratch>(&step.kind);
      if (!element) {
        own.copy(position);
        continue;
      }
      const Producer& producer = producers.at(element->slot);
      Copier again(result.stages[producer.stage].program, whole);
      own.place(position, again.copy(producer.step));
    }
    const auto moved = [&](std::int32_t step) { return own.copy(step); };
    for (auto& reduction : stage.reductions) reduction.step = moved(reduction.step);
    for (ir::Store& store : stage.stores) store.step = moved(store.step);
    for (const auto& keep : stage.keeps) producers[keep.slot] = {number, moved(keep.step)};
    stage.keeps.clear();
    stage.program = std::move(whole);
  }
  result.scratch.clear();
  return result;
}

ir::RowForm with_kept_loads(const ir::RowForm& form) {
  ir::RowForm result = form;
  const auto inner = [&](const ScalarStep& load) {
    return ir::any_dim(load, [&](const Dim& dim) {
      return std::ranges::any_of(
          form.inner, [&](const ir::Iteration& loop) { return dim.mentions(loop.variable); });
    });
  };
  const auto can_keep = [&](const ir::RowStage& stage, const ScalarStep& step) {
    return !stage.per_row && step.is<ir::step::Load>() && inner(step) && !depends_on_values(step) &&
           !has_guards(stage.program);
  };
  for (std::size_t first = 0; first < result.stages.size(); ++first) {
    for (std::size_t i = 0; i < result.stages[first].program.steps.size(); ++i) {
      const ScalarStep load = result.stages[first].program.steps[i];
      if (!can_keep(result.stages[first], load)) continue;
      std::optional<std::int32_t> slot;
      for (std::size_t later = first + 1; later < result.stages.size(); ++later) {
        for (ScalarStep& step : result.stages[later].program.steps) {
          if (!(step == load) || !can_keep(result.stages[later], step)) continue;
          if (!slot) {
            slot = static_cast<std::int32_t>(result.scratch.size());
            result.scratch.push_back(load.dtype);
            result.stages[first].keeps.push_back({*slot, static_cast<std::int32_t>(i)});
          }
          step = {load.dtype, ir::step::Scratch{*slot}};
        }
      }
    }
  }
  return result;
}

}  // namespace anydim::codegen_cuda
