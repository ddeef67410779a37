#include "runtime/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "runtime/code_memory.h"

namespace anydim::runtime {

namespace {

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }

}  // namespace

Context::Context(std::shared_ptr<const Executable> executable)
    : executable_(std::move(executable)), program_(executable_->program()), slots_(index_of(program_.slots)),
      session_(executable_->device().open_session(*executable_)) {}

void Context::record_launches(bool wanted) {
  recording_ = wanted;
  session_->record(wanted);
}

std::vector<ir::Tensor> Context::run(const std::vector<ir::Tensor>& inputs) {
  refresh_tables();
  records_.clear();
  executable_->input_binding().bind(inputs, slots_);
  session_->begin(inputs);
  for (const ir::Program::Instruction& instruction : program_.instructions) {
    std::visit([this](const auto& one) { execute(one); }, instruction);
  }
  std::vector<ir::Tensor> outputs = session_->finish(slots_);
  const std::vector<LaunchTiming>& timings = session_->timings();
  for (std::size_t i = 0; i < records_.size(); ++i) {
    records_[i].tasks = timings[i].tasks;
    records_[i].seconds = timings[i].seconds;
  }
  return outputs;
}

void Context::refresh_tables() {
  const std::uint64_t version = executable_->kernels().version();
  if (tables_ != nullptr && version == tables_version_) return;
  tables_ = executable_->kernels().tables();
  tables_version_ = version;
}

// ---- Stages ----

void Context::execute(const ir::Program::RunStage& run) {
  const auto stage = index_of(run.stage);
  fill_slots(stage);
  test_checks(program_.stages[stage]);
  session_->place(stage, slots_);
}

void Context::fill_slots(std::size_t index) {
  const ir::Program::Stage& stage = program_.stages[index];
  leaves_.resize(stage.leaves.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i] = slots_[index_of(stage.leaves[i])];
  const std::span<std::int64_t> values(slots_.data() + stage.first, stage.shapes.expressions.size());
  std::int32_t failed = -1;
  if (const LoadedShapes* native = tables_->shapes[index].get()) {
    call_generated(native->entry, leaves_.data(), values.data(), &failed);
  } else {
    failed = executable_->interpreter(index).run(leaves_, values);
  }
  if (failed < 0) return;
  std::string where;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const ir::DimLeaf& leaf = stage.shapes.leaves[i];
    if (leaf.is_symbol()) where += fmt::format("{}{} = {}", where.empty() ? "" : ", ", leaf.symbol, leaves_[i]);
  }
  throw Error(ErrorKind::Inputs, fmt::format("the size {} has no 64-bit value for these inputs (it overflows or divides by zero): {}",
                                             stage.shapes.expressions[index_of(failed)].to_string(), where));
}

void Context::test_checks(const ir::Program::Stage& stage) const {
  for (const ir::Program::Check& check : stage.checks) {
    const std::int64_t left = slots_[index_of(check.left)], right = slots_[index_of(check.right)];
    const char* wanted = "";
    switch (check.comparison) {
      case ir::Comparison::Equal:
        if (left == right || (check.or_one && (left == 1 || right == 1))) continue;
        break;
      case ir::Comparison::NotEqual:
        if (left != right) continue;
        wanted = "other than ";
        break;
      case ir::Comparison::Less:
        if (left < right) continue;
        wanted = "less than ";
        break;
      case ir::Comparison::LessEqual:
        if (left <= right) continue;
        wanted = "at most ";
        break;
    }
    throw Error(ErrorKind::Inputs,
                fmt::format("{}: expected {}{}{}, got {}", check.message, wanted, right, check.or_one ? " or 1" : "", left));
  }
}

// ---- Launches ----

Context::Pick Context::pick(std::int32_t kernel) const {
  const auto& entries = program_.kernels[index_of(kernel)].table.entries;
  const auto& loaded = tables_->kernels[index_of(kernel)];
  std::size_t met = 0;
  // The last entry has every shape of the declared range, so it isn't asked.
  while (met + 1 < entries.size() && !entries[met].bucket.contains(keys_)) ++met;
  std::size_t used = met;
  if (loaded[met] == nullptr) {
    executable_->kernels().want(kernel, static_cast<std::int32_t>(met));
    used = entries.size() - 1;
  }
  return {static_cast<std::int32_t>(met), static_cast<std::int32_t>(used), &loaded[used]};
}

void Context::execute(const ir::Program::Launch& launch) {
  extents_.resize(launch.extents.size());
  for (std::size_t i = 0; i < extents_.size(); ++i) extents_[i] = slots_[index_of(launch.extents[i])];
  keys_.resize(launch.keys.size());
  for (std::size_t i = 0; i < keys_.size(); ++i) keys_[i] = slots_[index_of(launch.keys[i])];
  const Pick picked = pick(launch.kernel);
  session_->launch({&launch, picked.kernel, picked.used, extents_});
  if (recording_)
    records_.push_back({launch.kernel, picked.met, picked.used, (*picked.kernel)->origin, extents_, keys_, 0, 0, &launch.source});
}

void Context::execute(const ir::Program::Fetch& fetch) { slots_[index_of(fetch.slot)] = session_->fetch(fetch); }

}  // namespace anydim::runtime
