#include "runtime/cuda_argument_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime::cuda {

namespace {

// Inputs up to this much together travel with the rows.
constexpr std::size_t most_staged_bytes = std::size_t{1} << 20;

}  // namespace

ArgumentBuffer::ArgumentBuffer(std::shared_ptr<DeviceContext> context, Stream stream,
                               std::size_t rows, std::size_t most_extents)
    : context_(std::move(context)), stream_(stream), rows_(rows),
      row_bytes_(std::max<std::size_t>(most_extents, 1) * sizeof(std::int64_t)),
      bytes_of_rows_(aligned(rows_ * row_bytes_)),
      host_(context_, bytes_of_rows_ + most_staged_bytes),
      errors_(context_, rows_ * sizeof(ir::KernelError)), errors_address_(errors_.device_address()),
      block_(context_, stream_) {}

std::int64_t* ArgumentBuffer::extents_of(std::size_t row) const {
  return reinterpret_cast<std::int64_t*>(host_.data() + row * row_bytes_);
}

std::size_t ArgumentBuffer::next_row() {
  internal_check(!full(), "a launch has a free row of arguments");
  return used_++;
}

std::size_t ArgumentBuffer::add(std::span<const std::int64_t> extents) {
  const std::size_t row = next_row();
  slots()[row] = {};
  std::ranges::copy(extents, extents_of(row));
  return row;
}

const std::byte* ArgumentBuffer::keep(std::span<const std::byte> number) {
  auto* kept = reinterpret_cast<std::byte*>(extents_of(next_row()));
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

Result ArgumentBuffer::copy(std::size_t begin, std::size_t end) {
  if (begin == end) return success;
  return context_->driver().copy_to_device(block_.address() + begin, host_.data() + begin,
                                           end - begin, stream_);
}

Result ArgumentBuffer::send(std::span<const Input> inputs, const std::vector<ir::Tensor>& tensors) {
  const std::size_t first = std::exchange(sent_, used_);
  if (std::exchange(inputs_sent_, true)) return copy(first * row_bytes_, used_ * row_bytes_);
  const auto bytes_of = [&](const Input& input) {
    return tensors[static_cast<std::size_t>(input.input)].bytes();
  };
  std::size_t end = bytes_of_rows_;
  for (const Input& input : inputs) end = std::max(end, input.offset + bytes_of(input).size());
  const bool together = end <= host_.bytes();
  for (const Input& input : inputs) {
    const std::span<const std::byte> bytes = bytes_of(input);
    if (bytes.empty()) continue;
    if (together) {
      std::memcpy(host_.data() + input.offset, bytes.data(), bytes.size());
    } else if (const Result result = context_->driver().copy_to_device(address(input), bytes.data(),
                                                                       bytes.size(), stream_);
               result != success) {
      return result;
    }
  }
  return copy(0, together ? end : used_ * row_bytes_);
}

}  // namespace anydim::runtime::cuda
