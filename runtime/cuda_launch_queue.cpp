#include "runtime/cuda_launch_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "ir/error.h"
#include "runtime/kernel_maker.h"

namespace anydim::runtime::cuda {

namespace {

// Rows of arguments where launches may come again: how many can be under way between two waits.
constexpr std::size_t rows_in_turn = 256;

const std::string twin_of = "the checked twin of ";

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }

std::vector<const ir::Code::Launch*> launches_of(const ir::Program& program) {
  std::vector<const ir::Code::Launch*> launches;
  for (const ir::Code& code : program.functions)
    for (const ir::Code::Instruction& instruction : code.instructions)
      if (const auto* launch = std::get_if<ir::Code::Launch>(&instruction))
        launches.push_back(launch);
  return launches;
}

ArgumentBuffer arguments_for(const ir::Program& program,
                             const std::shared_ptr<DeviceContext>& context, Stream stream) {
  std::size_t most_extents = 0;
  const std::vector<const ir::Code::Launch*> launches = launches_of(program);
  for (const ir::Code::Launch* launch : launches)
    most_extents = std::max(most_extents, launch->extents.size());
  return {context, stream,
          is_straight(program) ? launches.size() : std::max(launches.size(), rows_in_turn),
          most_extents};
}

}  // namespace

bool is_straight(const ir::Program& program) {
  return std::ranges::all_of(program.entry().instructions,
                             [](const ir::Code::Instruction& instruction) {
                               return std::holds_alternative<ir::Code::RunStage>(instruction) ||
                                      std::holds_alternative<ir::Code::Launch>(instruction) ||
                                      std::holds_alternative<ir::Code::Fetch>(instruction);
                             });
}

LaunchQueue::OwnStream::OwnStream(std::shared_ptr<DeviceContext> shared)
    : context(std::move(shared)) {
  context->enter();
  context->check(context->driver().stream_create(&handle, stream_non_blocking), "opening a stream");
}

LaunchQueue::OwnStream::~OwnStream() {
  if (!context->enter_quietly()) return;
  context->driver().stream_destroy(handle);
}

LaunchQueue::LaunchQueue(std::shared_ptr<DeviceContext> context, const ir::Program& program)
    : context_(std::move(context)), driver_(context_->driver()), program_(program),
      stream_(context_), arguments_(arguments_for(program, context_, stream_.handle)),
      workspace_(context_, stream_.handle),
      output_blocks_(program.entry().outputs.size(),
                     [shared = context_](std::size_t bytes) { return PinnedBlock(shared, bytes); }),
      maps_(context_) {
  // Steps beside launches may read any buffer.
  std::vector<bool> read(program.entry().buffers.size(), !is_straight(program));
  for (const ir::Code::Launch* launch : launches_of(program)) {
    checked_ = checked_ || !program.kernels[index_of(launch->kernel)].checks.empty();
    if (!is_straight(program)) continue;
    for (const std::int32_t buffer : launch->buffers) read[index_of(buffer)] = true;
  }
  for (std::size_t i = 0; i < program.entry().inputs.size(); ++i) {
    const std::int32_t buffer = program.entry().inputs[i].buffer;
    if (buffer >= 0 && read[index_of(buffer)])
      read_inputs_.push_back({.input = static_cast<std::int32_t>(i), .buffer = buffer});
  }
}

LaunchQueue::~LaunchQueue() {
  if (!context_->enter_quietly()) return;
  if (in_call_) driver_.stream_synchronize(stream_.handle);
  for (const Event event : events_) driver_.event_destroy(event);
}

const CudaKernel& LaunchQueue::Launch::kernel() const {
  return static_cast<const CudaKernel&>(*loaded->device);
}

// ---- A call ----

void LaunchQueue::begin(const std::vector<ir::Tensor>& inputs) {
  context_->enter();
  if (std::exchange(in_call_, false)) synchronize();
  waiting_.clear();
  issued_.clear();
  timings_.clear();
  leaves_.clear();
  arguments_.free_rows();
  arguments_.forget_inputs();
  inputs_ = &inputs;
  in_call_ = true;
}

ir::Tensor LaunchQueue::input_element(const ir::Code::Buffer& buffer, ir::DType dtype,
                                      std::int64_t element) const {
  const std::size_t size = ir::size_of(dtype);
  return {dtype,
          {},
          (*inputs_)[index_of(buffer.index)].bytes().subspan(
              static_cast<std::size_t>(element) * size, size),
          nullptr};
}

void LaunchQueue::note_symbols(std::span<const std::int64_t> slots) {
  const std::span<const std::int64_t> leaves = slots.first(program_.entry().leaf_symbols.size());
  leaves_.assign(leaves.begin(), leaves.end());
}

void LaunchQueue::add(const LaunchWork& work) {
  waiting_.push_back({work.launch, *work.kernel, arguments_.add(work.extents)});
}

bool LaunchQueue::reserve_workspace(std::span<const CudaKernel::Sizes> sizes,
                                    MemoryBudget& budget) {
  std::int64_t bytes = 0;
  for (const CudaKernel::Sizes& one : sizes) bytes = std::max(bytes, one.workspace_bytes);
  if (bytes > budget.used().scratch)
    budget.spend(&CallMemory::scratch, bytes - budget.used().scratch);
  return workspace_.reserve(static_cast<std::size_t>(bytes), "the kernels' workspace");
}

std::vector<LaunchQueue::Step> LaunchQueue::prepare(std::span<const CudaKernel::Sizes> sizes,
                                                    const AddressOf& address_of) {
  std::vector<Step> steps;
  std::vector<Address> buffers;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Launch& one = waiting_[i];
    buffers.clear();
    for (const std::int32_t buffer : one.launch->buffers) buffers.push_back(address_of(buffer));
    const PreparedLaunch::Places places{buffers, arguments_.extents_address(one.row),
                                        arguments_.error_address(one.row), workspace_.address()};
    steps.push_back(
        {one, CudaKernel::blocks(sizes[i]), cuda::prepare(one.kernel(), sizes[i], places, maps_)});
  }
  return steps;
}

void LaunchQueue::send(std::span<const ArgumentBuffer::Input> inputs) {
  check(arguments_.send(inputs, *inputs_), "copying inputs and arguments of a call to the GPU");
  std::ranges::move(waiting_, std::back_inserter(issued_));
  waiting_.clear();
}

std::string LaunchQueue::call_text() const {
  std::string symbols, regions;
  for (std::size_t slot = 0; slot < leaves_.size(); ++slot) {
    const std::string& symbol = program_.entry().leaf_symbols[slot];
    if (!symbol.empty())
      symbols += fmt::format("{}{} = {}", symbols.empty() ? "" : ", ", symbol, leaves_[slot]);
  }
  for (const std::vector<Launch>* launches : {&issued_, &waiting_}) {
    for (const Launch& launch : *launches) {
      const std::string one = describe(launch);
      if (regions.find(one) == std::string::npos)
        regions += fmt::format("{}{}", regions.empty() ? "" : "; ", one);
    }
  }
  return fmt::format("running a call with {} on the GPU, one of its launches failed ({})", symbols,
                     regions);
}

void LaunchQueue::check(Result result, std::string_view doing) const {
  if (result == success) return;
  for (const Launch& launch : issued_) {
    const ir::KernelError& error = arguments_.error(launch.row);
    if (ends_context(result) && error.check == ir::KernelError::wait_ran_out) {
      const CudaKernel& kernel = launch.kernel();
      const bool on_trial = kernel.twin() != nullptr && !kernel.proven();
      context_->fail(result,
                     fmt::format("running {}{}: a wait ran out ({})", on_trial ? twin_of : "",
                                 describe(launch), describe_wait(error)));
    }
  }
  context_->fail(result, doing.empty() ? call_text() : doing);
}

void LaunchQueue::synchronize() { check(driver_.stream_synchronize(stream_.handle), {}); }

void LaunchQueue::wait() {
  synchronize();
  const std::vector<Launch> tested = std::exchange(issued_, {});
  arguments_.free_rows();
  if (!checked_) return;
  for (const Launch& launch : tested) {
    const ir::KernelError& error = arguments_.error(launch.row);
    if (error.check >= 0) report_check(program_, *launch.launch, extents(launch), error);
  }
}

std::vector<ir::Tensor> LaunchQueue::finish(std::span<const std::int64_t> slots,
                                            const AddressOf& address_of) {
  std::vector<ir::Tensor> outputs;
  outputs.reserve(program_.entry().outputs.size());
  for (const ir::Code::Output& output : program_.entry().outputs) {
    const ir::Code::Buffer& buffer = program_.entry().buffers[index_of(output.buffer)];
    std::vector<std::int64_t> dims = output_dims(output, slots);
    const auto bytes = static_cast<std::size_t>(ir::byte_count(output.dtype, dims));
    if (buffer.place == ir::Code::Buffer::Place::Input) {
      const ir::Tensor& input = (*inputs_)[index_of(buffer.index)];
      outputs.emplace_back(output.dtype, std::move(dims), input.bytes(), input.owner());
      continue;
    }
    const std::shared_ptr<std::byte> block = output_blocks_.take(bytes);
    if (bytes > 0)
      check(driver_.copy_to_host(block.get(), address_of(output.buffer), bytes, stream_.handle),
            "copying outputs from the GPU");
    outputs.emplace_back(output.dtype, std::move(dims),
                         std::span<const std::byte>(block.get(), bytes), block);
  }
  wait();
  in_call_ = false;
  return outputs;
}

// ---- Issuing ----

bool LaunchQueue::enqueue(Step& step, Stream stream, bool behind_kernel, bool apart) {
  for (PreparedLaunch& launch : step.launches) {
    check(launch.issue(driver_, stream, behind_kernel && !apart), "launching " + describe(step.of));
    behind_kernel = true;
  }
  return behind_kernel;
}

void LaunchQueue::enqueue(std::vector<Step>& steps, Stream stream) {
  bool behind_kernel = false;
  for (Step& step : steps) behind_kernel = enqueue(step, stream, behind_kernel, false);
}

void LaunchQueue::issue(std::vector<Step>& steps) {
  bool behind_kernel = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    const CudaKernel& kernel = step.of.kernel();
    const bool on_trial = !step.launches.empty() && !kernel.proven();
    const bool in_place_of_twin = on_trial && kernel.twin() != nullptr;
    mark(2 * i);
    if (in_place_of_twin) run_twin(step);
    else behind_kernel = enqueue(step, stream_.handle, behind_kernel, recording_);
    mark(2 * i + 1);
    if (!on_trial) continue;
    behind_kernel = false;
    if (in_place_of_twin) continue;
    check(kernel.waits() ? context_->wait_a_while(stream_.handle)
                         : driver_.stream_synchronize(stream_.handle),
          "running " + describe(step.of));
    kernel.set_proven();
  }
  if (recording_) read_marks(steps);
}

// The twin's run counts as the kernel's: it computes the same.
void LaunchQueue::run_twin(Step& step) {
  const std::string twin = twin_of + describe(step.of);
  for (PreparedLaunch& launch : step.launches)
    check(launch.issue_twin(driver_, stream_.handle), "launching " + twin);
  check(context_->wait_a_while(stream_.handle), "running " + twin);
  step.of.kernel().set_proven();
  const ir::KernelError& error = arguments_.error(step.of.row);
  if (error.check >= 0) report_check(program_, *step.of.launch, extents(step.of), error);
}

// ---- Recording ----

void LaunchQueue::mark(std::size_t event) {
  if (!recording_) return;
  if (event == events_.size()) {
    Event made = nullptr;
    context_->check(driver_.event_create(&made, event_default), "timing launches");
    events_.push_back(made);
  }
  context_->check(driver_.event_record(events_[event], stream_.handle), "timing launches");
}

void LaunchQueue::read_marks(const std::vector<Step>& steps) {
  synchronize();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    float milliseconds = 0;
    context_->check(driver_.event_elapsed(&milliseconds, events_[2 * i], events_[2 * i + 1]),
                    "timing launches");
    timings_.push_back({steps[i].blocks,
                        steps[i].launches.empty() ? 0 : 1e-3 * static_cast<double>(milliseconds)});
  }
}

}  // namespace anydim::runtime::cuda
