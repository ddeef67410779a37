#include "runtime/cuda_argument_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime::cuda {

namespace {

// Inputs up to this much together travel with the rows.
constexpr std::size_t most_staged_bytes = std::size_t{1} << 20;
// Room of an input in device memory that is copied over rather than left out: about what another
// copy costs.
constexpr std::size_t most_copied_over = std::size_t{1} << 16;

}  // namespace

ArgumentBuffer::ArgumentBuffer(std::shared_ptr<DeviceContext> context, Stream stream,
                               std::size_t rows, std::size_t most_extents)
    : context_(std::move(context)), stream_(stream), rows_(rows),
      row_bytes_(std::max<std::size_t>(most_extents, 1) * sizeof(std::int64_t)),
      bytes_of_rows_(aligned(rows_ * row_bytes_)),
      errors_(context_, rows_ * sizeof(ir::KernelError)), errors_address_(errors_.device_address()),
      block_(context_, stream_) {
  make_room(bytes_of_rows_ + most_staged_bytes);
  clear_errors();
}

void ArgumentBuffer::begin_call(std::size_t turn) {
  turn_ = turn;
  make_room(bytes_of_rows_ + most_staged_bytes);
  free_rows();
  inputs_sent_ = false;
}

// Only this turn's block grows; its rows stay as they are.
void ArgumentBuffer::make_room(std::size_t bytes) {
  PinnedBlock& block = host_.at(turn_);
  if (block.bytes() >= bytes) return;
  PinnedBlock larger(context_, bytes);
  if (block.data() != nullptr) std::memcpy(larger.data(), block.data(), bytes_of_rows_);
  block = std::move(larger);
}

void ArgumentBuffer::clear_errors() { std::fill_n(slots(), rows_, ir::KernelError()); }

std::int64_t* ArgumentBuffer::extents_of(std::size_t turn, std::size_t row) const {
  return reinterpret_cast<std::int64_t*>(host_.at(turn).data() + row * row_bytes_);
}

std::size_t ArgumentBuffer::next_row() {
  internal_check(!full(), "a launch has a free row of arguments");
  return used_++;
}

std::size_t ArgumentBuffer::add(std::span<const std::int64_t> extents) {
  const std::size_t row = next_row();
  std::ranges::copy(extents, extents_of(turn_, row));
  return row;
}

const std::byte* ArgumentBuffer::keep(std::span<const std::byte> number) {
  auto* kept = reinterpret_cast<std::byte*>(extents_of(turn_, next_row()));
  std::ranges::copy(number, kept);
  sent_ = used_;
  return kept;
}

bool ArgumentBuffer::place(std::span<Input> inputs, std::span<const std::int64_t> bytes) {
  std::size_t offset = bytes_of_rows_;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].offset = offset;
    offset += aligned(static_cast<std::size_t>(bytes[i]));
  }
  return block_.reserve(std::max(offset, buffer_alignment), "inputs");
}

Result ArgumentBuffer::copy(const Run& run) {
  if (run.begin == run.end) return success;
  return context_->driver().copy_to_device(block_.address() + run.begin,
                                           host_.at(turn_).data() + run.staged, run.end - run.begin,
                                           stream_);
}

Result ArgumentBuffer::send(std::span<const Input> inputs, const std::vector<ir::Tensor>& tensors,
                            bool stage) {
  const std::size_t first = std::exchange(sent_, used_);
  const Run rows{first * row_bytes_, used_ * row_bytes_, first * row_bytes_};
  if (std::exchange(inputs_sent_, true)) return copy(rows);
  find_runs(inputs, tensors);
  const std::size_t staged = runs_.back().staged + runs_.back().end - runs_.back().begin;
  if (stage) make_room(staged);
  if (staged <= host_.at(turn_).bytes()) return send_staged(inputs, tensors);
  for (const Input& input : inputs) {
    const ir::Tensor& tensor = tensors[static_cast<std::size_t>(input.input)];
    if (tensor.byte_size() == 0 || device_memory_of(tensor) != nullptr) continue;
    if (const Result result = context_->driver().copy_to_device(
            address(input), tensor.bytes().data(), tensor.byte_size(), stream_);
        result != success)
      return result;
  }
  return copy(rows);
}

// Rows, and inputs of the host with little or nothing of the device between them.
void ArgumentBuffer::find_runs(std::span<const Input> inputs,
                               const std::vector<ir::Tensor>& tensors) {
  runs_.assign(1, {0, used_ * row_bytes_, 0});
  bool apart = false;
  for (const Input& input : inputs) {
    const ir::Tensor& tensor = tensors[static_cast<std::size_t>(input.input)];
    if (tensor.byte_size() == 0) continue;
    const bool on_device = device_memory_of(tensor) != nullptr;
    if (!on_device && apart && input.offset - runs_.back().end > most_copied_over) {
      // Behind all rows, those too that are still to come.
      const std::size_t staged = std::max(
          bytes_of_rows_, aligned(runs_.back().staged + runs_.back().end - runs_.back().begin));
      runs_.push_back({input.offset, input.offset, staged});
    }
    if (!on_device) runs_.back().end = input.offset + tensor.byte_size();
    apart = on_device;
  }
}

Result ArgumentBuffer::send_staged(std::span<const Input> inputs,
                                   const std::vector<ir::Tensor>& tensors) {
  auto run = runs_.begin();
  for (const Input& input : inputs) {
    const ir::Tensor& tensor = tensors[static_cast<std::size_t>(input.input)];
    if (tensor.byte_size() == 0 || device_memory_of(tensor) != nullptr) continue;
    while (input.offset >= run->end) ++run;
    std::memcpy(host_.at(turn_).data() + run->staged + (input.offset - run->begin),
                tensor.bytes().data(), tensor.byte_size());
  }
  for (const Run& one : runs_)
    if (const Result result = copy(one); result != success) return result;
  return success;
}

}  // namespace anydim::runtime::cuda
