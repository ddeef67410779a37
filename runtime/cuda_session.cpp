#include "runtime/cuda_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "ir/error.h"
#include "runtime/executable.h"
#include "runtime/kernel_store.h"

namespace anydim::runtime::cuda {

namespace {

using Place = ir::Program::Buffer::Place;

constexpr std::size_t buffer_alignment = 256;
// Inputs up to this much together travel with the plan block in one copy.
constexpr std::size_t most_staged_bytes = std::size_t{1} << 20;

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }
// Frames hold addresses of the device as pointers that nothing on the host follows.
std::byte* host_form(Address address) { return reinterpret_cast<std::byte*>(address); }
Address device_form(const std::byte* place) { return reinterpret_cast<Address>(place); }
std::size_t aligned(std::size_t bytes) { return (bytes + buffer_alignment - 1) / buffer_alignment * buffer_alignment; }

// Fetches from inputs read host memory; any other waits for the device.
bool fetches_from_device(const ir::Program& program) {
  return std::ranges::any_of(program.instructions, [&](const ir::Program::Instruction& instruction) {
    const auto* fetch = std::get_if<ir::Program::Fetch>(&instruction);
    return fetch != nullptr && program.buffers[index_of(fetch->buffer)].place != Place::Input;
  });
}

// Rows of the plan block where launches may come again: how many can be under way between two waits.
constexpr std::size_t rows_in_turn = 256;

// The host decides nothing but sizes.
bool is_straight(const ir::Program& program) {
  return std::ranges::all_of(program.instructions, [](const ir::Program::Instruction& instruction) {
    return std::holds_alternative<ir::Program::RunStage>(instruction) || std::holds_alternative<ir::Program::Launch>(instruction) ||
           std::holds_alternative<ir::Program::Fetch>(instruction);
  });
}

}  // namespace

CudaSession::OwnStream::OwnStream(std::shared_ptr<DeviceContext> shared) : context(std::move(shared)) {
  context->enter();
  context->check(context->driver().stream_create(&handle, stream_non_blocking), "opening a stream");
}

CudaSession::OwnStream::~OwnStream() {
  context->enter_quietly();
  context->driver().stream_destroy(handle);
}

CudaSession::PreparedCall::~PreparedCall() {
  if (graph == nullptr) return;
  context->enter_quietly();
  context->driver().graph_executable_destroy(graph);
}

CudaSession::CudaSession(std::shared_ptr<DeviceContext> context, const Executable& executable)
    : context_(std::move(context)), driver_(context_->driver()), executable_(executable), program_(executable.program()), stream_(context_),
      capacity_(program_), call_block_(context_, stream_.handle), workspace_(context_, stream_.handle),
      activations_(context_, stream_.handle), outputs_memory_(*this),
      output_blocks_(program_.outputs.size(), [shared = context_](std::size_t bytes) { return PinnedBlock(shared, bytes); }),
      maps_(context_), constants_(program_.buffers.size()), budget_(executable.memory_limit()), frames_(executable, *this, budget_) {
  const bool straight = is_straight(program_);
  whole_ = straight && program_.stages.size() <= 1 && !fetches_from_device(program_);
  std::vector<bool> read(program_.buffers.size(), !straight);
  std::size_t launches = 0, most_extents = 1;
  const auto count = [&](const ir::Code& code) {
    for (const ir::Code::Instruction& instruction : code.instructions) {
      const auto* launch = std::get_if<ir::Code::Launch>(&instruction);
      if (launch == nullptr) continue;
      ++launches;
      most_extents = std::max(most_extents, launch->extents.size());
      if (straight)
        for (const std::int32_t buffer : launch->buffers) read[index_of(buffer)] = true;
      checked_ = checked_ || !program_.kernels[index_of(launch->kernel)].checks.empty();
    }
  };
  count(program_);
  std::ranges::for_each(program_.functions, count);
  rows_ = straight ? launches : std::max(launches, rows_in_turn);
  row_bytes_ = sizeof(ir::KernelError) + most_extents * sizeof(std::int64_t);
  plan_bytes_ = aligned(rows_ * row_bytes_);

  ir::ShapeProgram sizes;
  for (std::size_t slot = 0; slot < program_.leaf_symbols.size(); ++slot) {
    if (program_.leaf_symbols[slot].empty()) continue;
    sizes.leaves.push_back({.symbol = program_.leaf_symbols[slot]});
    symbol_slots_.push_back(slot);
  }
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const ir::Program::Input& input = program_.inputs[i];
    if (input.buffer < 0 || !read[index_of(input.buffer)]) continue;
    wanted_inputs_.push_back({static_cast<std::int32_t>(i), input.buffer, 0});
    sizes.expressions.push_back(ir::product(input.dims) * static_cast<std::int64_t>(ir::size_of(input.dtype)));
  }
  input_bytes_.emplace(sizes);

  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    const ir::Program::Buffer& buffer = program_.buffers[b];
    if (buffer.place == Place::Constant) constants_[b] = reinterpret_cast<Address>(executable.constant_addresses()[index_of(buffer.index)]);
  }
  plan_ = PinnedBlock(context_, plan_bytes_ + most_staged_bytes);
  errors_ = PinnedBlock(context_, plan_bytes_ + sizeof(ir::KernelError));
}

CudaSession::~CudaSession() {
  context_->enter_quietly();
  if (in_flight_) driver_.stream_synchronize(stream_.handle);
  for (const Event event : events_) driver_.event_destroy(event);
}

const CudaKernel& CudaSession::kernel_of(const LoadedKernel& kernel) const { return static_cast<const CudaKernel&>(*kernel.device); }

// ---- The plan block ----

std::span<std::int64_t> CudaSession::extents_of(const ir::Program::Launch& launch, std::size_t row) const {
  return {reinterpret_cast<std::int64_t*>(plan_.data() + row * row_bytes_ + sizeof(ir::KernelError)), launch.extents.size()};
}

ir::KernelError& CudaSession::error_of(std::size_t row) const {
  return *reinterpret_cast<ir::KernelError*>(plan_.data() + row * row_bytes_);
}

// What used the row before is done with it: all launches so far are waited for where every row is taken.
std::size_t CudaSession::next_row() {
  if (row_ == rows_) {
    internal_check(!whole_, "launches come in the program's order");
    flush();
    test_errors();
  }
  return row_++;
}

// ---- The call, as the virtual machine tells it ----

void CudaSession::begin(const std::vector<ir::Tensor>& inputs) {
  context_->enter();
  if (in_flight_) synchronize();  // a call that was broken off may still read the plan block
  waiting_.clear();
  issued_.clear();
  timings_.clear();
  leaves_.clear();
  row_ = copied_rows_ = 0;
  inputs_copied_ = false;
  last_ = nullptr;
  inputs_ = &inputs;
  if (whole_) return;
  frames_.begin();  // what a call that was broken off left is given back to its budget
  outputs_memory_.clear();
  budget_.reset();
  std::vector<std::int64_t> bytes;
  for (const InputPlace& place : wanted_inputs_) bytes.push_back(static_cast<std::int64_t>(inputs[index_of(place.input)].bytes().size()));
  std::vector<Address> addresses(program_.buffers.size());
  place_inputs(bytes, placed_inputs_, addresses);
  for (const InputPlace& place : placed_inputs_) frames_.lend(place.buffer, host_form(addresses[index_of(place.buffer)]));
}

void CudaSession::place(std::size_t stage, std::span<const std::int64_t> slots) {
  if (leaves_.empty() && !frames_.in_call())
    leaves_.assign(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(program_.leaf_symbols.size()));
  if (whole_) return;  // finish() prepares the whole call
  flush();
  frames_.place(stage, slots);
  for (const std::int32_t o : executable_.stage_layouts()[stage].outputs) {
    const std::int32_t buffer = program_.outputs[index_of(o)].buffer;
    const std::int64_t bytes = slots[index_of(program_.buffers[index_of(buffer)].bytes)];
    budget_.spend(&CallMemory::outputs, bytes);
    frames_.lend(buffer, outputs_memory_.take(static_cast<std::size_t>(bytes)));
  }
}

void CudaSession::launch(const LaunchWork& work) {
  const std::size_t row = next_row();
  std::ranges::copy(work.extents, extents_of(*work.launch, row).begin());
  error_of(row) = {};
  waiting_.push_back({work.launch, *work.kernel, work.bucket, row});
}

ir::Tensor CudaSession::element(std::int32_t position, ir::DType dtype, std::int64_t element) {
  const std::size_t size = ir::size_of(dtype);
  if (whole_ || !frames_.in_call()) {
    const ir::Program::Buffer& buffer = program_.buffers[index_of(position)];
    if (buffer.place == Place::Input)
      return {dtype, {}, (*inputs_)[index_of(buffer.index)].bytes().subspan(static_cast<std::size_t>(element) * size, size), nullptr};
  }
  ir::Tensor copy(dtype, {});
  const std::byte* source = frames().address(position) + static_cast<std::size_t>(element) * size;
  context_->check(driver_.copy_to_host(copy.mutable_bytes().data(), device_form(source), size, stream_.handle),
                  "fetching a number from the GPU");
  in_flight_ = true;
  test_errors();
  return copy;
}

// Launches that wait have the addresses of now.
Frames& CudaSession::frames() {
  flush();
  if (!inputs_copied_) copy_in(placed_inputs_);
  return frames_;
}

std::vector<ir::Tensor> CudaSession::finish(std::span<const std::int64_t> slots) {
  if (!whole_) {
    flush();
    memory_ = budget_.most();
    std::vector<ir::Tensor> outputs = copy_out(slots, [&](std::int32_t buffer) { return address_of(buffer); });
    frames_.end();
    return outputs;
  }
  PreparedCall& call = prepared_for(slots);
  memory_ = call.memory;
  run_whole(call);
  last_ = &call;
  issued_ = std::exchange(waiting_, {});
  return copy_out(slots, [&](std::int32_t buffer) { return call.addresses[index_of(buffer)]; });
}

// ---- Memory ----

// Captured graphs and prepared parameters hold addresses.
void CudaSession::note_move(bool moved) {
  if (moved) calls_.clear();
}

void CudaSession::place_inputs(std::span<const std::int64_t> bytes, std::vector<InputPlace>& inputs, std::vector<Address>& addresses) {
  inputs = wanted_inputs_;
  std::size_t offset = plan_bytes_;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].offset = offset;
    offset += aligned(static_cast<std::size_t>(bytes[i]));
  }
  note_move(call_block_.reserve(std::max<std::size_t>(offset, buffer_alignment), "inputs"));
  for (const InputPlace& place : inputs) addresses[index_of(place.buffer)] = call_block_.address() + place.offset;
}

// The arena segment of the one stage, and outputs behind it.
void CudaSession::place_whole(std::span<const std::int64_t> slots, std::vector<Address>& addresses) {
  const Executable::StageLayout& layout = executable_.stage_layouts()[0];
  std::size_t offset = 0;
  if (!program_.stages.empty() && program_.stages[0].arena_bytes >= 0) {
    const std::int64_t bytes = slots[index_of(program_.stages[0].arena_bytes)];
    budget_.spend(&CallMemory::arena, bytes);
    offset = aligned(static_cast<std::size_t>(bytes));
  }
  std::vector<std::pair<std::int32_t, std::size_t>> outputs;
  for (const std::int32_t o : layout.outputs) {
    const std::int32_t buffer = program_.outputs[index_of(o)].buffer;
    const std::int64_t bytes = slots[index_of(program_.buffers[index_of(buffer)].bytes)];
    budget_.spend(&CallMemory::outputs, bytes);
    outputs.emplace_back(buffer, offset);
    offset += aligned(static_cast<std::size_t>(bytes));
  }
  note_move(activations_.reserve(offset, "activations and outputs"));
  for (const std::int32_t b : layout.buffers)
    addresses[index_of(b)] = activations_.address() + static_cast<Address>(slots[index_of(program_.buffers[index_of(b)].offset)]);
  for (const auto& [buffer, at] : outputs) addresses[index_of(buffer)] = activations_.address() + at;
}

void CudaSession::reserve_workspace(std::int64_t bytes) {
  if (bytes > budget_.used().scratch) budget_.spend(&CallMemory::scratch, bytes - budget_.used().scratch);
  note_move(workspace_.reserve(static_cast<std::size_t>(bytes), "the kernels' workspace"));
}

PreparedLaunch::Places CudaSession::places_of(const Waiting& waiting, std::span<const Address> buffers) const {
  const Address row = call_block_.address() + waiting.row * row_bytes_;
  return {buffers, row + sizeof(ir::KernelError), row, workspace_.address()};
}

Address CudaSession::address_of(std::int32_t buffer) { return device_form(frames_.address(buffer)); }

// ---- Memory of frames ----

std::shared_ptr<std::byte> CudaSession::take(std::size_t bytes) {
  auto memory = std::make_shared<StreamMemory>(context_, stream_.handle);
  memory->reserve(std::max<std::size_t>(bytes, 1), "activations and outputs");
  std::byte* place = host_form(memory->address());
  return {std::move(memory), place};
}

void CudaSession::copy_rows(std::byte* to, std::size_t stride, const std::byte* from, std::size_t bytes, std::size_t rows) {
  in_flight_ = true;
  const char* doing = "copying values on the GPU";
  if (rows > 1 && stride <= longest_row_stride) {
    const RowCopy copy{.source_kind = device_memory_kind,
                       .source = device_form(from),
                       .source_stride = bytes,
                       .target_kind = device_memory_kind,
                       .target = device_form(to),
                       .target_stride = stride,
                       .bytes = bytes,
                       .rows = rows};
    return context_->check(driver_.copy_rows(&copy, stream_.handle), doing);
  }
  for (std::size_t row = 0; row < rows; ++row)
    context_->check(driver_.copy_on_device(device_form(to + row * stride), device_form(from + row * bytes), bytes, stream_.handle), doing);
}

// By way of a row of the plan block, which stays as it is until the copy is done.
void CudaSession::write(std::byte* to, std::span<const std::byte> number) {
  const std::size_t row = next_row();
  std::byte* kept = plan_.data() + row * row_bytes_ + sizeof(ir::KernelError);
  std::ranges::copy(number, kept);
  copied_rows_ = row_;
  in_flight_ = true;
  context_->check(driver_.copy_to_device(device_form(to), kept, number.size(), stream_.handle), "copying a number to the GPU");
}

// ---- Copies ----

// Rows that the device has not yet.
void CudaSession::copy_rows_in() {
  const std::size_t begin = copied_rows_ * row_bytes_, end = row_ * row_bytes_;
  copied_rows_ = row_;
  if (begin == end) return;
  in_flight_ = true;
  context_->check(driver_.copy_to_device(call_block_.address() + begin, plan_.data() + begin, end - begin, stream_.handle),
                  "copying the plan of a call to the GPU");
}

// The plan block, and the inputs: with it where they are small, else from where they lie.
void CudaSession::copy_in(const std::vector<InputPlace>& inputs) {
  std::size_t end = plan_bytes_;
  for (const InputPlace& place : inputs) end = std::max(end, place.offset + (*inputs_)[index_of(place.input)].bytes().size());
  const bool together = end <= plan_.bytes();
  for (const InputPlace& place : inputs) {
    const std::span<const std::byte> bytes = (*inputs_)[index_of(place.input)].bytes();
    if (bytes.empty()) continue;
    if (together) {
      std::memcpy(plan_.data() + place.offset, bytes.data(), bytes.size());
    } else {
      context_->check(driver_.copy_to_device(call_block_.address() + place.offset, bytes.data(), bytes.size(), stream_.handle),
                      "copying inputs to the GPU");
    }
  }
  inputs_copied_ = true;
  if (!together) return copy_rows_in();
  copied_rows_ = row_;
  in_flight_ = true;
  context_->check(driver_.copy_to_device(call_block_.address(), plan_.data(), end, stream_.handle),
                  "copying the plan of a call to the GPU");
}

std::vector<ir::Tensor> CudaSession::copy_out(std::span<const std::int64_t> slots, const std::function<Address(std::int32_t)>& address) {
  std::vector<ir::Tensor> outputs;
  outputs.reserve(program_.outputs.size());
  for (const ir::Program::Output& output : program_.outputs) {
    const ir::Program::Buffer& buffer = program_.buffers[index_of(output.buffer)];
    std::vector<std::int64_t> dims = output_dims(output, slots);
    const auto bytes = static_cast<std::size_t>(ir::byte_count(output.dtype, dims));
    if (buffer.place == Place::Input) {
      const ir::Tensor& input = (*inputs_)[index_of(buffer.index)];
      outputs.emplace_back(output.dtype, std::move(dims), input.bytes(), input.owner());
      continue;
    }
    const std::shared_ptr<std::byte> block = output_blocks_.take(bytes);
    in_flight_ = true;
    if (bytes > 0) {
      context_->check(driver_.copy_to_host(block.get(), address(output.buffer), bytes, stream_.handle), "copying outputs from the GPU");
    }
    outputs.emplace_back(output.dtype, std::move(dims), std::span<const std::byte>(block.get(), bytes), block);
  }
  test_errors();
  return outputs;
}

void CudaSession::synchronize() {
  const Result result = driver_.stream_synchronize(stream_.handle);
  in_flight_ = false;
  if (result != success) context_->fail(result, call_text());
}

// Waits, then throws what the first failing device check found. Every row is free then.
void CudaSession::test_errors() {
  const bool look = checked_ && row_ > 0 && inputs_copied_;
  if (look) {
    context_->check(driver_.copy_to_host(errors_.data(), call_block_.address(), row_ * row_bytes_, stream_.handle),
                    "copying error slots from the GPU");
  }
  synchronize();
  const std::vector<Waiting> tested = std::exchange(issued_, {});
  row_ = copied_rows_ = 0;
  if (!look) return;
  for (const Waiting& launch : tested) {
    const auto& error = *reinterpret_cast<const ir::KernelError*>(errors_.data() + launch.row * row_bytes_);
    if (error.check >= 0) report_check(program_, *launch.launch, extents_of(*launch.launch, launch.row), error);
  }
}

// For a fault that no one launch is known to have: all that ran.
std::string CudaSession::call_text() const {
  std::string symbols, regions;
  for (std::size_t slot = 0; slot < program_.leaf_symbols.size(); ++slot) {
    if (!program_.leaf_symbols[slot].empty() && slot < leaves_.size())
      symbols += fmt::format("{}{} = {}", symbols.empty() ? "" : ", ", program_.leaf_symbols[slot], leaves_[slot]);
  }
  const auto name = [&](const Waiting& launch) {
    const std::string one = kernel_of(*launch.kernel).describe(extents_of(*launch.launch, launch.row));
    if (regions.find(one) == std::string::npos) regions += fmt::format("{}{}", regions.empty() ? "" : "; ", one);
  };
  std::ranges::for_each(issued_, name);
  std::ranges::for_each(waiting_, name);
  return fmt::format("running a call with {} on the GPU, one of its launches failed ({})", symbols, regions);
}

// ---- Launches ----

// Issues what waits, on the stream, with the sizes of this very call and the addresses of the frame at work.
void CudaSession::flush() {
  if (waiting_.empty()) return;
  std::vector<CudaKernel::Sizes> sizes;
  for (const Waiting& waiting : waiting_) {
    sizes.push_back(kernel_of(*waiting.kernel).sizes(extents_of(*waiting.launch, waiting.row)));
    reserve_workspace(sizes.back().workspace_bytes);
  }
  std::vector<Step> steps;
  std::vector<Address> buffers;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Waiting& waiting = waiting_[i];
    const CudaKernel& kernel = kernel_of(*waiting.kernel);
    Step& step = steps.emplace_back(Step{&kernel, waiting.launch, waiting.row, CudaKernel::blocks(sizes[i]), {}});
    buffers.clear();
    for (const std::int32_t buffer : waiting.launch->buffers) buffers.push_back(address_of(buffer));
    step.launches = prepare(kernel, sizes[i], places_of(waiting, buffers), maps_);
  }
  if (inputs_copied_) {
    copy_rows_in();
  } else {
    copy_in(placed_inputs_);
  }
  std::ranges::move(waiting_, std::back_inserter(issued_));
  waiting_.clear();
  issue(steps, false, stream_.handle);
}

void CudaSession::issue(std::vector<Step>& steps, bool capturing, Stream stream) {
  const bool timed = recording_ && !capturing;
  if (timed) start_recording(steps.size());
  bool behind_kernel = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    const auto describe = [&] { return step.kernel->describe(extents_of(*step.launch, step.row)); };
    if (timed) context_->check(driver_.event_record(events_[2 * i], stream), "timing launches");
    const bool on_trial = !capturing && !step.launches.empty() && !step.kernel->proven();
    if (on_trial && step.kernel->twin() != nullptr) {
      prove(step, stream);
      behind_kernel = false;
      if (timed) context_->check(driver_.event_record(events_[2 * i + 1], stream), "timing launches");
      continue;
    }
    for (PreparedLaunch& launch : step.launches) {
      in_flight_ = true;
      // Timed launches stand alone.
      const Result result = launch.issue(driver_, stream, behind_kernel && !timed);
      if (result != success) context_->fail(result, fmt::format("launching {}", describe()));
      behind_kernel = true;
    }
    if (timed) context_->check(driver_.event_record(events_[2 * i + 1], stream), "timing launches");
    if (on_trial) {
      const Result result = driver_.stream_synchronize(stream);
      if (result != success) context_->fail(result, fmt::format("running {}", describe()));
      step.kernel->set_proven();
      behind_kernel = false;
    }
  }
  if (timed) finish_recording(steps);
}

// The twin's run counts as the kernel's: it computes the same.
void CudaSession::prove(Step& step, Stream stream) {
  const std::size_t place = errors_.bytes() - sizeof(ir::KernelError);
  auto& error = *reinterpret_cast<ir::KernelError*>(errors_.data() + place);
  error = {};
  const Address address = errors_.device_address() + place;
  const auto describe = [&] { return step.kernel->describe(extents_of(*step.launch, step.row)); };
  in_flight_ = true;
  for (PreparedLaunch& launch : step.launches) {
    const Result result = launch.issue_twin(driver_, stream, address);
    if (result != success) context_->fail(result, fmt::format("launching the checked twin of {}", describe()));
  }
  if (const Result result = driver_.stream_synchronize(stream); result != success) {
    const std::string wait = error.check == ir::KernelError::wait_ran_out ? fmt::format(": a wait ran out ({})", describe_wait(error)) : "";
    context_->fail(result, fmt::format("running the checked twin of {}{}", describe(), wait));
  }
  step.kernel->set_proven();
  if (error.check >= 0) report_check(program_, *step.launch, extents_of(*step.launch, step.row), error);
}

void CudaSession::start_recording(std::size_t steps) {
  while (events_.size() < 2 * steps) {
    Event event = nullptr;
    context_->check(driver_.event_create(&event, event_default), "timing launches");
    events_.push_back(event);
  }
}

void CudaSession::finish_recording(const std::vector<Step>& steps) {
  synchronize();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    float milliseconds = 0;
    context_->check(driver_.event_elapsed(&milliseconds, events_[2 * i], events_[2 * i + 1]), "timing launches");
    timings_.push_back({steps[i].blocks, steps[i].launches.empty() ? 0 : 1e-3 * static_cast<double>(milliseconds)});
  }
}

}  // namespace anydim::runtime::cuda
