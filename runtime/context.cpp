#include "runtime/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "ir/error.h"
#include "ir/host_functions.h"

namespace anydim::runtime {

namespace {

using Place = ir::Program::Buffer::Place;

// Keeps the scratch of two workers off each other's cache lines, prefetched neighbours included.
constexpr std::int64_t scratch_unit = 256;

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }

}  // namespace

Context::Context(std::shared_ptr<const Executable> executable)
    : executable_(std::move(executable)), program_(executable_->program()), slots_(index_of(program_.slots)),
      addresses_(program_.buffers.size()), segments_(program_.stages.size()), output_blocks_(program_.outputs.size()),
      outputs_(program_.outputs.size()) {
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    const ir::Program::Buffer& buffer = program_.buffers[b];
    if (buffer.place != Place::Constant) continue;
    const ir::Tensor& constant = program_.constants[index_of(buffer.index)].tensor;
    addresses_[b] = const_cast<std::byte*>(constant.bytes().data());  // kernels read it only
  }
}

std::vector<ir::Tensor> Context::run(const std::vector<ir::Tensor>& inputs) {
  refresh_tables();
  memory_ = {};
  records_.clear();
  std::ranges::fill(outputs_, nullptr);
  executable_->input_binding().bind(inputs, slots_);
  inputs_ = &inputs;
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    const ir::Program::Buffer& buffer = program_.buffers[b];
    if (buffer.place == Place::Input) addresses_[b] = const_cast<std::byte*>(inputs[index_of(buffer.index)].bytes().data());
  }
  for (const ir::Program::Instruction& instruction : program_.instructions) {
    std::visit([this](const auto& one) { execute(one); }, instruction);
  }
  return collect_outputs();
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
  place_buffers(stage);
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

void Context::place_buffers(std::size_t index) {
  const ir::Program::Stage& stage = program_.stages[index];
  const Executable::StageLayout& layout = executable_->stage_layouts()[index];
  if (stage.arena_bytes >= 0) {
    const std::int64_t bytes = slots_[index_of(stage.arena_bytes)];
    spend(&CallMemory::arena, bytes);
    segments_[index].reserve(static_cast<std::size_t>(bytes));
  }
  for (const std::int32_t b : layout.buffers) {
    const ir::Program::Buffer& buffer = program_.buffers[index_of(b)];
    addresses_[index_of(b)] = segments_[index_of(buffer.segment)].data() + slots_[index_of(buffer.offset)];
  }
  for (const std::int32_t o : layout.outputs) {
    const std::int32_t b = program_.outputs[index_of(o)].buffer;
    const std::int64_t bytes = slots_[index_of(program_.buffers[index_of(b)].bytes)];
    spend(&CallMemory::outputs, bytes);
    outputs_[index_of(o)] = output_blocks_.take(static_cast<std::size_t>(bytes));
    addresses_[index_of(b)] = outputs_[index_of(o)].get();
  }
}

// Counts memory of this call against the limit before it is taken.
void Context::spend(std::int64_t CallMemory::* part, std::int64_t bytes) {
  if (bytes < 0) throw Error(ErrorKind::Inputs, fmt::format("a buffer's size comes out as {} bytes for these inputs", bytes));
  memory_.*part += bytes;
  const std::int64_t total = memory_.arena + memory_.scratch + memory_.outputs;
  const auto limit = executable_->memory_limit();
  if (limit && total > *limit) {
    throw Error(ErrorKind::Resource,
                fmt::format("this call needs at least {} bytes for activations, scratch and outputs, over the memory limit of {} "
                            "bytes; give smaller inputs or raise --memory-limit",
                            total, *limit));
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
  return {static_cast<std::int32_t>(met), static_cast<std::int32_t>(used), loaded[used].get()};
}

std::byte* Context::scratch_for(std::int64_t bytes_each, std::size_t& stride) {
  const auto workers = static_cast<std::int64_t>(executable_->pool().threads());
  const std::int64_t rounded = (bytes_each + scratch_unit - 1) / scratch_unit * scratch_unit;
  stride = static_cast<std::size_t>(rounded);
  if (rounded * workers > memory_.scratch) spend(&CallMemory::scratch, rounded * workers - memory_.scratch);
  return scratch_.reserve(static_cast<std::size_t>(rounded * workers));
}

void Context::execute(const ir::Program::Launch& launch) {
  using Clock = std::chrono::steady_clock;
  const auto begin = recording_ ? Clock::now() : Clock::time_point();
  extents_.resize(launch.extents.size());
  for (std::size_t i = 0; i < extents_.size(); ++i) extents_[i] = slots_[index_of(launch.extents[i])];
  keys_.resize(launch.keys.size());
  for (std::size_t i = 0; i < keys_.size(); ++i) keys_[i] = slots_[index_of(launch.keys[i])];
  const Pick picked = pick(launch.kernel);

  std::int64_t sizes[2] = {0, 0};
  if (picked.kernel->sizes.run(extents_, sizes) >= 0) {
    throw Error(ErrorKind::Inputs, fmt::format("the work of {} is too large to count for these inputs", launch.source));
  }
  const std::int64_t tasks = sizes[0];
  if (tasks > 0) {
    arguments_.resize(launch.buffers.size());
    for (std::size_t i = 0; i < arguments_.size(); ++i) arguments_[i] = addresses_[index_of(launch.buffers[i])];
    std::size_t stride = 0;
    std::byte* scratch = sizes[1] > 0 ? scratch_for(sizes[1], stride) : nullptr;
    ir::KernelError error;
    const ir::KernelCall call{arguments_.data(), extents_.data(), &error, &executable_->host_functions()};
    const ir::KernelEntry entry = picked.kernel->entry;
    executable_->pool().run(tasks, [&](std::int64_t first, std::int64_t last, int participant) {
      call_generated(entry, &call, first, last, scratch + static_cast<std::size_t>(participant) * stride);
    });
    if (error.check >= 0) report(launch, error);
  }
  if (!recording_) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  records_.push_back({launch.kernel, picked.met, picked.used, picked.kernel->origin, extents_, keys_, tasks, seconds, &launch.source});
}

void Context::report(const ir::Program::Launch& launch, const ir::KernelError& error) const {
  const ir::Program::Kernel& kernel = program_.kernels[index_of(launch.kernel)];
  internal_check(index_of(error.check) < kernel.checks.size() && index_of(error.check) < kernel.check_extents.size(),
                 "a kernel reports one of its checks");
  const std::vector<std::string>& symbols = kernel.region.body.symbols.names();
  const std::int64_t extent = kernel.check_extents[index_of(error.check)].evaluate([&](const ir::DimLeaf& leaf) {
    const auto found = std::ranges::find(symbols, leaf.symbol);
    internal_check(found != symbols.end(), "a check's extent is over its region's symbols");
    return extents_[static_cast<std::size_t>(found - symbols.begin())];
  });
  if (extent < 0) throw Error(ErrorKind::Inputs, fmt::format("{}: the divisor is 0", kernel.checks[index_of(error.check)]));
  const std::string& what = kernel.checks[index_of(error.check)];
  // Extent -1 marks a divisor of integers.
  if (extent < 0) throw Error(ErrorKind::Inputs, fmt::format("{}: expected anything but 0, got 0", what));
  throw Error(ErrorKind::Inputs, fmt::format("{}: expected from {} to {}, got {}", what, -extent, extent - 1, error.value));
}

// ---- Fetches and outputs ----

void Context::execute(const ir::Program::Fetch& fetch) {
  const auto* elements = static_cast<const std::byte*>(addresses_[index_of(fetch.buffer)]);
  const std::size_t size = ir::size_of(fetch.dtype);
  // A view of the one element; nothing owns it longer than this line needs.
  const ir::Tensor element(fetch.dtype, {}, {elements + static_cast<std::size_t>(fetch.element) * size, size}, nullptr);
  slots_[index_of(fetch.slot)] = element.integer_at(0);
}

std::vector<ir::Tensor> Context::collect_outputs() {
  std::vector<ir::Tensor> outputs;
  outputs.reserve(program_.outputs.size());
  for (std::size_t o = 0; o < program_.outputs.size(); ++o) outputs.push_back(output_tensor(o));
  std::ranges::fill(outputs_, nullptr);  // the caller's from here on
  return outputs;
}

ir::Tensor Context::output_tensor(std::size_t index) {
  const ir::Program::Output& output = program_.outputs[index];
  const ir::Program::Buffer& buffer = program_.buffers[index_of(output.buffer)];
  std::vector<std::int64_t> dims;
  dims.reserve(output.dims.size());
  for (const ir::Program::Slot slot : output.dims) dims.push_back(slots_[index_of(slot)]);
  const auto bytes = static_cast<std::size_t>(ir::byte_count(output.dtype, dims));
  const auto shared = [&](const std::byte* data, std::shared_ptr<const void> owner) {
    return ir::Tensor(output.dtype, dims, {data, bytes}, std::move(owner));
  };
  switch (buffer.place) {
    case Place::Output: {
      const std::shared_ptr<std::byte>& block = outputs_[index_of(buffer.index)];
      return shared(block.get(), block);
    }
    case Place::Constant: {
      const ir::Tensor& constant = program_.constants[index_of(buffer.index)].tensor;
      return shared(constant.bytes().data(), constant.owner());
    }
    case Place::Input: {
      const ir::Tensor& input = (*inputs_)[index_of(buffer.index)];
      return shared(input.bytes().data(), input.owner());
    }
    case Place::Arena: break;
  }
  ir::Tensor copy(output.dtype, dims);
  const std::span<std::byte> target = copy.mutable_bytes();
  std::copy_n(static_cast<const std::byte*>(addresses_[index_of(output.buffer)]), target.size(), target.begin());
  return copy;
}

}  // namespace anydim::runtime
