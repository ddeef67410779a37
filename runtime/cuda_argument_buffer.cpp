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
      row_bytes_(sizeof(ir::KernelError) +
                 std::max<std::size_t>(most_extents, 1) * sizeof(std::int64_t)),
      bytes_of_rows_(aligned(rows_ * row_bytes_)),
      host_(context_, bytes_of_rows_ + most_staged_bytes),
      errors_(context_, bytes_of_rows_ + sizeof(ir::KernelError)), block_(context_, stream_) {}

std::int64_t* ArgumentBuffer::extents_of(std::size_t row) const {
  return reinterpret_cast<std::int64_t*>(host_.data() + row * row_bytes_ + sizeof(ir::KernelError));
}

std::size_t ArgumentBuffer::next_row() {
  internal_check(!full(), "a launch has a free row of arguments");
  return used_++;
}

std::size_t ArgumentBuffer::add(std::span<const std::int64_t> extents) {
  const std::size_t row = next_row();
  *reinterpret_cast<ir::KernelError*>(host_.data() + row * row_bytes_) = {};
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

void ArgumentBuffer::copy(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  context_->check(context_->driver().copy_to_device(block_.address() + begin, host_.data() + begin,
                                                    end - begin, stream_),
                  "copying the arguments of a call to the GPU");
}

void ArgumentBuffer::send(std::span<const Input> inputs, const std::vector<ir::Tensor>& tensors) {
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
    } else {
      context_->check(
          context_->driver().copy_to_device(address(input), bytes.data(), bytes.size(), stream_),
          "copying inputs to the GPU");
    }
  }
  copy(0, together ? end : used_ * row_bytes_);
}

bool ArgumentBuffer::fetch_errors() {
  if (used_ == 0 || !inputs_sent_) return false;
  context_->check(context_->driver().copy_to_host(errors_.data(), block_.address(),
                                                  used_ * row_bytes_, stream_),
                  "copying error slots from the GPU");
  return true;
}

const ir::KernelError& ArgumentBuffer::error(std::size_t row) const {
  return *reinterpret_cast<const ir::KernelError*>(errors_.data() + row * row_bytes_);
}

ir::KernelError& ArgumentBuffer::host_error() const {
  return *reinterpret_cast<ir::KernelError*>(errors_.data() + bytes_of_rows_);
}

}  // namespace anydim::runtime::cuda
