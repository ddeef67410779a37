#include "runtime/graph_executor.h"

#include <algorithm>

#include "ir/error.h"

namespace anydim::runtime {

GraphExecutor::GraphExecutor(std::shared_ptr<const Executable> executable)
    : executable_(std::move(executable)), session_(executable_->device().open_session(*executable_)),
      slots_(static_cast<std::size_t>(executable_->program().slots)) {
  executable_->kernels().complete();
  const std::shared_ptr<const KernelTables> tables = executable_->kernels().tables();
  for (const ir::Code::Instruction& instruction : executable_->program().instructions) {
    if (const auto* run = std::get_if<ir::Code::RunStage>(&instruction)) {
      steps_.push_back({.stage = static_cast<std::size_t>(run->stage)});
      settle_sizes(steps_.back().stage);
    } else {
      steps_.push_back(settled(std::get<ir::Code::Launch>(instruction), *tables));
    }
  }
}

// Of a stage of the entry function: other functions have slots of their own.
void GraphExecutor::settle_sizes(std::size_t index) {
  const ir::Program::Stage& stage = executable_->program().stages[index];
  std::vector<std::int64_t> leaves;
  for (const ir::Code::Slot slot : stage.leaves) leaves.push_back(slots_[static_cast<std::size_t>(slot)]);
  const std::span<std::int64_t> values(slots_.data() + stage.first, stage.shapes.expressions.size());
  internal_check(executable_->interpreter(index).run(leaves, values) < 0, "constant sizes have values");
}

GraphExecutor::Step GraphExecutor::settled(const ir::Code::Launch& launch, const KernelTables& tables) const {
  Step step{.launch = &launch};
  std::vector<std::int64_t> keys;
  for (const ir::Code::Slot slot : launch.extents) step.extents.push_back(slots_[static_cast<std::size_t>(slot)]);
  for (const ir::Code::Slot slot : launch.keys) keys.push_back(slots_[static_cast<std::size_t>(slot)]);
  const auto kernel = static_cast<std::size_t>(launch.kernel);
  std::size_t met = tables.dispatch->lookups[kernel].find(keys);
  // One that did not compile is served by the general kernel, the last.
  if (tables.kernels[kernel][met] == nullptr) met = tables.kernels[kernel].size() - 1;
  step.kernel = tables.kernels[kernel][met];
  step.bucket = tables.entry(launch.kernel, static_cast<std::int32_t>(met)).bucket;
  return step;
}

std::vector<ir::Tensor> GraphExecutor::run(const std::vector<ir::Tensor>& inputs) {
  executable_->input_binding().bind(inputs, slots_);
  session_->begin(inputs);
  for (const Step& step : steps_) {
    if (step.launch == nullptr) session_->place(step.stage, slots_);
    else session_->launch({step.launch, &step.kernel, &step.bucket, step.extents});
  }
  return session_->finish(slots_);
}

}  // namespace anydim::runtime
