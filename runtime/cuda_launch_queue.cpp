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

const std::string checked_form_of = "the checked form of ";

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
      stream_(context_), order_(context_, stream_.handle),
      arguments_(arguments_for(program, context_, stream_.handle)),
      workspace_(context_, stream_.handle),
      output_blocks_(program.entry().outputs.size(),
                     [shared = context_](std::size_t bytes) { return PinnedBlock(shared, bytes); }),
      result_blocks_(context_, most_calls_under_way * program.entry().outputs.size()),
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
  stop();
  if (!context_->enter_quietly()) return;
  for (const Event event : events_) driver_.event_destroy(event);
}

const CudaKernel& LaunchQueue::Launch::kernel() const {
  return static_cast<const CudaKernel&>(*loaded->device);
}

// ---- A call (its begin and end: cuda_launch_queue_calls.cpp) ----

void LaunchQueue::note_symbols(std::span<const std::int64_t> slots) {
  const std::span<const std::int64_t> leaves = slots.first(program_.entry().leaf_symbols.size());
  call_.leaves.assign(leaves.begin(), leaves.end());
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
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    std::vector<Address> buffers;
    for (const std::int32_t buffer : waiting_[i].launch->buffers)
      buffers.push_back(address_of(buffer));
    steps.push_back(prepare(waiting_[i], sizes[i], std::move(buffers)));
  }
  return steps;
}

LaunchQueue::Step LaunchQueue::prepare(const Launch& one, const CudaKernel::Sizes& sizes,
                                       std::vector<Address> buffers) {
  const PreparedLaunch::Places places{buffers, arguments_.extents_address(one.row),
                                      arguments_.error_address(one.row), workspace_.address()};
  std::vector<PreparedLaunch> launches = cuda::prepare(one.kernel(), sizes, places, maps_);
  return {one, CudaKernel::blocks(sizes), std::move(buffers), std::move(launches)};
}

void LaunchQueue::send(std::span<const ArgumentBuffer::Input> inputs) {
  check(arguments_.send(inputs, *inputs_, !waits_),
        "copying inputs and arguments of a call to the GPU");
  std::ranges::move(waiting_, std::back_inserter(call_.issued));
  waiting_.clear();
}

std::string LaunchQueue::symbols_text(const Call& call) const {
  std::string symbols;
  for (std::size_t slot = 0; slot < call.leaves.size(); ++slot) {
    const std::string& symbol = program_.entry().leaf_symbols[slot];
    if (!symbol.empty())
      symbols += fmt::format("{}{} = {}", symbols.empty() ? "" : ", ", symbol, call.leaves[slot]);
  }
  return symbols;
}

std::string LaunchQueue::call_text() const {
  std::string calls, regions;
  const auto add = [&](const std::vector<Launch>& launches, std::size_t turn) {
    for (const Launch& launch : launches) {
      const std::string one = launch.kernel().describe(extents(launch, turn));
      if (regions.find(one) == std::string::npos)
        regions += fmt::format("{}{}", regions.empty() ? "" : "; ", one);
    }
  };
  for (const Call& call : under_way_) {
    calls += fmt::format("{}{}", calls.empty() ? "" : " or ", symbols_text(call));
    add(call.issued, call.turn);
  }
  if (in_call_) {
    calls += fmt::format("{}{}", calls.empty() ? "" : " or ", symbols_text(call_));
    add(call_.issued, call_.turn);
    add(waiting_, call_.turn);
  }
  return fmt::format("running a call with {} on the GPU, one of its launches failed ({})", calls,
                     regions);
}

void LaunchQueue::fail_if_a_wait_ran_out(const Call& call, Result result) const {
  for (const Launch& launch : call.issued) {
    const ir::KernelError& error = arguments_.error(launch.row);
    if (ends_context(result) && error.check == ir::KernelError::wait_ran_out) {
      const CudaKernel& kernel = launch.kernel();
      const bool on_trial = kernel.checked_form() != nullptr && !kernel.proven();
      context_->fail(
          result, fmt::format("running {}{}: a wait ran out ({})", on_trial ? checked_form_of : "",
                              kernel.describe(extents(launch, call.turn)), describe_wait(error)));
    }
  }
}

void LaunchQueue::check(Result result, std::string_view doing) const {
  if (result == success) return;
  for (const Call& call : under_way_) fail_if_a_wait_ran_out(call, result);
  fail_if_a_wait_ran_out(call_, result);
  context_->fail(result, doing.empty() ? call_text() : doing);
}

void LaunchQueue::synchronize() { check(driver_.stream_synchronize(stream_.handle), {}); }

void LaunchQueue::wait() {
  synchronize();
  std::vector<Call> tested(1);
  tested[0].turn = call_.turn;
  tested[0].issued = std::exchange(call_.issued, {});
  arguments_.free_rows();
  report(tested);
}

// ---- Issuing ----

bool LaunchQueue::enqueue(Step& step, Stream stream, bool behind_kernel, bool apart) {
  for (PreparedLaunch& launch : step.launches) {
    check(launch.issue(driver_, stream, behind_kernel && !apart), "launching " + describe(step.of));
    behind_kernel = true;
  }
  return behind_kernel;
}

void LaunchQueue::enqueue(std::vector<Step>& steps, Stream stream, int times) {
  bool behind_kernel = false;
  for (int i = 0; i < times; ++i)
    for (Step& step : steps) behind_kernel = enqueue(step, stream, behind_kernel, false);
}

void LaunchQueue::capture(std::vector<Step>& steps) {
  bool behind_kernel = false;
  for (Step& step : steps) {
    for (PreparedLaunch& launch : step.launches) {
      check(launch.issue(driver_, stream_.handle, behind_kernel), "launching " + describe(step.of));
      behind_kernel = true;
      // What came next would follow this launch alone: that is its node.
      int state = not_capturing;
      const GraphNode* last = nullptr;
      std::size_t count = 0;
      const Result told =
          driver_.capture_state(stream_.handle, &state, nullptr, nullptr, &last, &count);
      launch.captured_as(told == success && count == 1 ? *last : nullptr);
    }
  }
}

void LaunchQueue::issue(std::vector<Step>& steps) {
  // What a trial reports is this call's.
  const auto on_trial = [](const Step& step) {
    return !step.launches.empty() && !step.of.kernel().proven();
  };
  if (std::ranges::any_of(steps, on_trial)) collect(true);
  bool behind_kernel = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    const CudaKernel& kernel = step.of.kernel();
    const bool tried = on_trial(step);
    const bool as_checked_form = tried && kernel.checked_form() != nullptr;
    if (observer_ && step.blocks > 0) {
      show(step);
      behind_kernel = false;
    }
    mark(2 * i);
    if (as_checked_form) run_checked(step);
    else behind_kernel = enqueue(step, stream_.handle, behind_kernel, recording_);
    mark(2 * i + 1);
    if (!tried) continue;
    behind_kernel = false;
    if (as_checked_form) continue;
    check(kernel.waits() ? context_->wait_a_while(stream_.handle)
                         : driver_.stream_synchronize(stream_.handle),
          "running " + describe(step.of));
    kernel.set_proven();
  }
  if (recording_) read_marks(steps);
}

// The checked form's run counts as the kernel's: it computes the same.
void LaunchQueue::run_checked(Step& step) {
  const std::string checked_form = checked_form_of + describe(step.of);
  for (PreparedLaunch& launch : step.launches)
    check(launch.issue_checked(driver_, stream_.handle), "launching " + checked_form);
  check(context_->wait_a_while(stream_.handle), "running " + checked_form);
  step.of.kernel().set_proven();
  const ir::KernelError error = arguments_.error(step.of.row);
  if (error.check < 0) return;
  arguments_.clear_errors();
  report_check(program_, *step.of.launch, extents(step.of), error);
}

// ---- Observing and recording ----

void LaunchQueue::show(const Step& step) {
  synchronize();
  std::vector<void*> places;
  for (const Address buffer : step.buffers) places.push_back(reinterpret_cast<void*>(buffer));
  observer_({.launch = step.of.launch, .kernel = &step.of.loaded, .extents = extents(step.of)},
            places);
}

void LaunchQueue::read(const void* address, std::span<std::byte> to) {
  if (to.empty()) return;
  check(driver_.copy_to_host(to.data(), reinterpret_cast<Address>(address), to.size(),
                             stream_.handle),
        "reading what a launch is given");
  synchronize();
}

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
