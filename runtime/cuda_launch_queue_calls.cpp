// Calls of a launch queue from their begin to their end, and what they take and give.

#include <algorithm>
#include <iterator>
#include <utility>

#include "ir/error.h"
#include "runtime/cuda_launch_queue.h"

namespace anydim::runtime::cuda {

namespace {

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }

}  // namespace

void LaunchQueue::begin(const std::vector<ir::Tensor>& inputs, const StreamCall* call,
                        std::size_t most_under_way) {
  context_->enter();
  if (std::exchange(in_call_, false)) {
    synchronize();
    if (under_way_.empty()) arguments_.clear_errors();
  }
  inputs_ = &inputs;
  stream_call_ = call;
  waits_ = waits_for_end();
  reads_on_host_ = false;
  waiting_.clear();
  timings_.clear();
  call_ = {};
  targets_.assign(program_.entry().outputs.size(), std::nullopt);
  find_given();
  collect(waits_ || most_under_way == 1);
  if (under_way_.size() >= most_under_way) {
    check(order_.wait(under_way_.front().turn), {});
    collect(false);
  }
  call_.turn =
      under_way_.empty() ? arguments_.turn() : (under_way_.back().turn + 1) % most_calls_under_way;
  arguments_.begin_call(call_.turn);
  in_call_ = true;
  if (call != nullptr && call->stream) order_.follow(*call->stream);
}

bool LaunchQueue::waits_for_end() const {
  if (stream_call_ == nullptr || !stream_call_->stream) return true;
  const std::vector<StreamCall::Place>& places = stream_call_->results;
  return places.size() < program_.entry().outputs.size() ||
         std::ranges::any_of(
             places,
             [](const StreamCall::Place& place) {
               return place.kind == StreamCall::Place::Kind::Host;
             });
}

void LaunchQueue::find_given() {
  given_.assign(inputs_->size(), nullptr);
  for (std::size_t i = 0; i < inputs_->size(); ++i) {
    const DeviceMemory* memory = device_memory_of((*inputs_)[i]);
    if (memory == nullptr) continue;
    given_[i] = dynamic_cast<const TensorMemory*>(memory);
    if (given_[i] == nullptr || &given_[i]->context() != context_.get())
      throw Error(
          ErrorKind::Inputs,
          "input '{}' lies in memory of GPU {} that was made a tensor of for "
          "another model: expected a tensor of this model's device (GPU {}), or one in host memory",
          program_.entry().inputs.at(i).name, memory->device(), context_->ordinal());
    call_.inputs.push_back((*inputs_)[i]);
  }
}

void LaunchQueue::break_off() noexcept {
  const bool uses_device_memory = stream_call_ != nullptr || !call_.inputs.empty();
  if (!in_call_ || !uses_device_memory || !context_->enter_quietly()) return;
  if (driver_.stream_synchronize(stream_.handle) != success) return;
  in_call_ = false;
  call_.inputs.clear();
  if (under_way_.empty()) arguments_.clear_errors();
}

void LaunchQueue::settle() {
  if (!under_way_.empty()) synchronize();
}

void LaunchQueue::stop() noexcept {
  if ((in_call_ || !under_way_.empty()) && context_->enter_quietly())
    driver_.stream_synchronize(stream_.handle);
}

void LaunchQueue::collect(bool wait) {
  if (under_way_.empty()) return;
  context_->enter();
  if (wait) synchronize();
  std::vector<Call> ended;
  while (!under_way_.empty()) {
    const Result state = wait ? success : order_.state(under_way_.front().turn);
    if (state == not_ready) break;
    check(state, {});
    ended.push_back(std::move(under_way_.front()));
    under_way_.pop_front();
  }
  const auto reports = [&](const Launch& launch) {
    return arguments_.error(launch.row).check >= 0;
  };
  if (!checked_ || std::ranges::none_of(ended, [&](const Call& call) {
        return std::ranges::any_of(call.issued, reports);
      }))
    return;
  // Those behind may have reported it as well: calls share their error slots.
  settle();
  std::ranges::move(under_way_, std::back_inserter(ended));
  under_way_.clear();
  report(ended);
}

void LaunchQueue::report(const std::vector<Call>& calls) {
  if (!checked_) return;
  struct Failed {
    const Launch* launch;
    std::span<const std::int64_t> extents;
  };
  std::optional<Failed> first;
  bool sure = false;
  for (const Call& call : calls) {
    for (const Launch& launch : call.issued) {
      const ir::KernelError& error = arguments_.error(launch.row);
      if (sure || error.check < 0) continue;
      const Failed one{&launch, extents(launch, call.turn)};
      sure = may_report(program_, *launch.launch, one.extents, error);
      if (sure || !first) first = one;
    }
  }
  if (!first) return;
  const ir::KernelError error = arguments_.error(first->launch->row);
  arguments_.clear_errors();
  report_check(program_, *first->launch->launch, first->extents, error);
}

// ---- Inputs and results ----

ir::Tensor LaunchQueue::input_element(const ir::Code::Buffer& buffer, ir::DType dtype,
                                      std::int64_t element) {
  const std::size_t size = ir::size_of(dtype), at = static_cast<std::size_t>(element) * size;
  const TensorMemory* memory = given(buffer.index);
  if (memory == nullptr)
    return {dtype, {}, (*inputs_)[index_of(buffer.index)].bytes().subspan(at, size), nullptr};
  ir::Tensor copy(dtype, {});
  check(
      driver_.copy_to_host(copy.mutable_bytes().data(), memory->place() + at, size, stream_.handle),
      "fetching a number of an input from the GPU");
  synchronize();
  return copy;
}

void LaunchQueue::copy(Address to, Address from, std::size_t bytes) {
  if (bytes > 0 && to != from)
    check(driver_.copy_on_device(to, from, bytes, stream_.handle), "copying a tensor on the GPU");
}

const LaunchQueue::Target& LaunchQueue::target(std::size_t output,
                                               std::span<const std::int64_t> slots) {
  std::optional<Target>& target = targets_[output];
  const ir::Code::Output& wanted = program_.entry().outputs[output];
  std::vector<std::int64_t> dims = output_dims(wanted, slots);
  if (target && target->dims == dims) return *target;
  const auto bytes = static_cast<std::size_t>(ir::byte_count(wanted.dtype, dims));
  target = Target{.dims = std::move(dims), .bytes = bytes, .owner = nullptr};
  if (stream_call_ != nullptr && output < stream_call_->results.size())
    choose_place(*target, output);
  return *target;
}

void LaunchQueue::choose_place(Target& target, std::size_t output) {
  using Kind = StreamCall::Place::Kind;
  const StreamCall::Place& place = stream_call_->results[output];
  target.kind = place.kind;
  if (place.kind == Kind::Host) return;
  if (place.kind == Kind::Given && place.bytes >= target.bytes) {
    target.address = reinterpret_cast<Address>(place.address);
    return;
  }
  // A null handle is a stream too: calls without one have a key of their own.
  const void* stream = stream_call_->stream ? stream_call_->stream->handle : this;
  std::shared_ptr<std::byte> block = result_blocks_.take(target.bytes, stream);
  target.address = reinterpret_cast<Address>(block.get());
  target.owner = std::move(block);
}

Address LaunchQueue::room_for(std::size_t output, std::span<const std::int64_t> slots) {
  const std::int32_t buffer = program_.entry().outputs[output].buffer;
  if (stream_call_ == nullptr ||
      program_.entry().buffers[index_of(buffer)].place != ir::Code::Buffer::Place::Output)
    return 0;
  const Address address = target(output, slots).address;
  return address % kernel_alignment == 0 ? address : 0;
}

ir::Tensor LaunchQueue::to_host(const ir::Code::Output& output, const Target& target,
                                Address from) {
  const std::shared_ptr<std::byte> block = output_blocks_.take(target.bytes);
  if (target.bytes > 0)
    check(driver_.copy_to_host(block.get(), from, target.bytes, stream_.handle),
          "copying outputs from the GPU");
  return {output.dtype, target.dims, std::span<const std::byte>(block.get(), target.bytes), block};
}

ir::Tensor LaunchQueue::hand_over(std::size_t position, std::span<const std::int64_t> slots,
                                  const AddressOf& address_of) {
  const ir::Code::Output& output = program_.entry().outputs[position];
  const ir::Code::Buffer& buffer = program_.entry().buffers[index_of(output.buffer)];
  const bool is_input = buffer.place == ir::Code::Buffer::Place::Input;
  const TensorMemory* memory = is_input ? given(buffer.index) : nullptr;
  const Target& target = this->target(position, slots);
  const bool stays = target.kind != StreamCall::Place::Kind::Host;
  if (is_input && memory == nullptr) {
    const ir::Tensor& input = (*inputs_)[index_of(buffer.index)];
    if (!stays) return {output.dtype, target.dims, input.bytes(), input.owner()};
    if (target.bytes > 0)
      check(driver_.copy_to_device(target.address, input.bytes().data(), target.bytes,
                                   stream_.handle),
            "copying an input to where a result is to lie");
    reads_on_host_ = true;
  } else {
    const Address from = memory != nullptr ? memory->place() : address_of(output.buffer);
    if (!stays) return to_host(output, target, from);
    copy(target.address, from, target.bytes);
  }
  return {
      output.dtype, target.dims,
      std::make_shared<const TensorMemory>(context_, target.address, target.bytes, target.owner)};
}

std::vector<ir::Tensor> LaunchQueue::finish(std::span<const std::int64_t> slots,
                                            const AddressOf& address_of) {
  std::vector<ir::Tensor> outputs;
  outputs.reserve(program_.entry().outputs.size());
  for (std::size_t output = 0; output < program_.entry().outputs.size(); ++output)
    outputs.push_back(hand_over(output, slots, address_of));
  if (waits_) wait();
  else leave_under_way();
  call_.inputs.clear();
  in_call_ = false;
  return outputs;
}

void LaunchQueue::leave_under_way() {
  order_.lead(*stream_call_->stream, call_.turn);
  if (reads_on_host_) synchronize();
  under_way_.push_back(std::exchange(call_, {}));
}

}  // namespace anydim::runtime::cuda
