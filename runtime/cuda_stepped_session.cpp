#include "runtime/cuda_stepped_session.h"

#include <algorithm>
#include <utility>

#include "runtime/executable.h"

namespace anydim::runtime::cuda {

namespace {

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }
// Frames hold addresses of the device as pointers that nothing on the host follows.
std::byte* host_form(Address address) { return reinterpret_cast<std::byte*>(address); }
Address device_form(const std::byte* place) { return reinterpret_cast<Address>(place); }

bool serves_where_it_is(const TensorMemory* memory) {
  return memory != nullptr && memory->place() % kernel_alignment == 0;
}

}  // namespace

SteppedSession::SteppedSession(std::shared_ptr<DeviceContext> context, const Executable& executable)
    : executable_(executable), program_(executable.program()), queue_(std::move(context), program_),
      budget_(executable.memory_limit()), inputs_(queue_.read_inputs()), outputs_memory_(*this),
      frames_(executable, *this, budget_) {}

void SteppedSession::begin(const std::vector<ir::Tensor>& inputs, const StreamCall* call) {
  // One at a time: the host waits within a call, and what it then learns is that call's.
  queue_.begin(inputs, call, 1);
  frames_.begin();  // what a call that was broken off left is given back to its budget
  outputs_memory_.clear();
  budget_.reset();
  std::vector<std::int64_t> bytes;
  for (const ArgumentBuffer::Input& input : inputs_)
    bytes.push_back(serves_where_it_is(queue_.given(input.input))
                        ? 0
                        : static_cast<std::int64_t>(inputs[index_of(input.input)].byte_size()));
  queue_.arguments().place(inputs_, bytes);
  for (const ArgumentBuffer::Input& input : inputs_) {
    const TensorMemory* memory = queue_.given(input.input);
    const Address place =
        serves_where_it_is(memory) ? memory->place() : queue_.arguments().address(input);
    if (memory != nullptr) queue_.copy(place, memory->place(), memory->bytes());
    frames_.lend(input.buffer, host_form(place));
  }
}

void SteppedSession::place(std::size_t stage, std::span<const std::int64_t> slots) {
  if (!frames_.in_call()) queue_.note_symbols(slots);
  flush();
  frames_.place(stage, slots);
  for (const std::int32_t o : executable_.stage_layouts()[stage].outputs) {
    const std::int32_t buffer = program_.entry().outputs[index_of(o)].buffer;
    const std::int64_t bytes = slots[index_of(program_.entry().buffers[index_of(buffer)].bytes)];
    budget_.spend(&CallMemory::outputs, bytes);
    const Address room = queue_.room_for(index_of(o), slots);
    frames_.lend(buffer, room != 0 ? host_form(room)
                                   : outputs_memory_.take(static_cast<std::size_t>(bytes)));
  }
}

void SteppedSession::launch(const LaunchWork& work) {
  make_row();
  queue_.add(work);
}

ir::Tensor SteppedSession::element(std::int32_t position, ir::DType dtype, std::int64_t element) {
  if (!frames_.in_call()) {
    const ir::Code::Buffer& buffer = program_.entry().buffers[index_of(position)];
    if (buffer.place == ir::Code::Buffer::Place::Input)
      return queue_.input_element(buffer, dtype, element);
  }
  ir::Tensor copy(dtype, {});
  const std::size_t size = ir::size_of(dtype);
  const std::byte* source = frames().address(position) + static_cast<std::size_t>(element) * size;
  queue_.check(queue_.context()->driver().copy_to_host(copy.mutable_bytes().data(),
                                                       device_form(source), size, queue_.stream()),
               "fetching a number from the GPU");
  queue_.wait();
  return copy;
}

// Launches that wait have the addresses of now, and steps beside launches may read inputs.
Frames& SteppedSession::frames() {
  flush();
  queue_.send(inputs_);
  return frames_;
}

std::vector<ir::Tensor> SteppedSession::finish(std::span<const std::int64_t> slots) {
  flush();
  std::vector<ir::Tensor> outputs = queue_.finish(
      slots, [&](std::int32_t buffer) { return device_form(frames_.address(buffer)); });
  frames_.end();
  return outputs;
}

// Issues what waits, with the sizes of this very call and the addresses of the frame at work.
void SteppedSession::flush() {
  if (queue_.waiting().empty()) return;
  std::vector<CudaKernel::Sizes> sizes;
  for (const LaunchQueue::Launch& launch : queue_.waiting())
    sizes.push_back(launch.kernel().sizes(queue_.extents(launch)));
  queue_.reserve_workspace(sizes, budget_);
  auto steps = queue_.prepare(
      sizes, [&](std::int32_t buffer) { return device_form(frames_.address(buffer)); });
  queue_.send(inputs_);
  queue_.issue(steps);
}

// Where every row of arguments is taken, the launches so far are waited for.
void SteppedSession::make_row() {
  if (!queue_.arguments().full()) return;
  flush();
  queue_.wait();
}

// ---- Memory of frames ----

std::shared_ptr<std::byte> SteppedSession::take(std::size_t bytes) {
  auto memory = std::make_shared<StreamMemory>(queue_.context(), queue_.stream());
  memory->reserve(std::max<std::size_t>(bytes, 1), "activations and outputs");
  std::byte* place = host_form(memory->address());
  return {std::move(memory), place};
}

void SteppedSession::copy_rows(std::byte* to, std::size_t stride, const std::byte* from,
                               std::size_t bytes, std::size_t rows) {
  const Driver& driver = queue_.context()->driver();
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
    return queue_.check(driver.copy_rows(&copy, queue_.stream()), doing);
  }
  for (std::size_t row = 0; row < rows; ++row)
    queue_.check(driver.copy_on_device(device_form(to + row * stride),
                                       device_form(from + row * bytes), bytes, queue_.stream()),
                 doing);
}

// By way of a row of arguments, which stays as it is until the copy is done.
void SteppedSession::write(std::byte* to, std::span<const std::byte> number) {
  make_row();
  const std::byte* kept = queue_.arguments().keep(number);
  queue_.check(queue_.context()->driver().copy_to_device(device_form(to), kept, number.size(),
                                                         queue_.stream()),
               "copying a number to the GPU");
}

}  // namespace anydim::runtime::cuda
