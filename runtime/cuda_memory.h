// Memory of a GPU, and host memory that it copies from and to.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/cuda_context.h"
#include "runtime/device.h"
#include "runtime/memory.h"

namespace anydim::runtime::cuda {

// Buffers that share an allocation begin at multiples of this.
constexpr std::size_t buffer_alignment = 256;
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + buffer_alignment - 1) / buffer_alignment * buffer_alignment;
}

// Buffers that are given to kernels begin at multiples of this (ir/backend.h).
constexpr std::size_t kernel_alignment = 64;

// Device memory in the order of one stream: taken and freed without waiting. Grows to the largest
// size asked for; growing loses the contents.
class StreamMemory {
 public:
  StreamMemory(std::shared_ptr<DeviceContext> context, Stream stream)
      : context_(std::move(context)), stream_(stream) {}
  ~StreamMemory();
  StreamMemory(StreamMemory&& other) noexcept;
  StreamMemory& operator=(StreamMemory&&) = delete;

  // True where the address has changed. Throws Error{Resource}; then the memory is empty and can be
  // asked again. `what` is for its message.
  bool reserve(std::size_t bytes, std::string_view what);
  Address address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<DeviceContext> context_;
  Stream stream_ = nullptr;
  Address address_ = 0;
  std::size_t bytes_ = 0;
};

// Host memory that the GPU reads and writes without a copy in between.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(std::shared_ptr<DeviceContext> context, std::size_t bytes);  // throws Error{Resource}
  ~PinnedBlock();
  PinnedBlock(PinnedBlock&& other) noexcept;
  PinnedBlock& operator=(PinnedBlock&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Address device_address() const;  // for kernels; what they write outlives the context

 private:
  std::shared_ptr<DeviceContext> context_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Uploads constants once, each to an allocation of its own.
std::unique_ptr<ConstantStore> make_constants(std::shared_ptr<DeviceContext> context);

}  // namespace anydim::runtime::cuda
