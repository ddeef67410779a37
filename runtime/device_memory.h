// Tensors in memory of a GPU: ir::Tensors whose bytes come from a DeviceMemory. Their shape is
// known on the host and their bytes are not: what would read them there is refused.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "ir/tensor.h"

namespace anydim::runtime {

// A stream of the caller's on the model's device. CUDA: a CUstream or cudaStream_t; null is the
// default stream.
struct DeviceStream {
  void* handle = nullptr;
};

class DeviceMemory : public ir::TensorSource {
 public:
  // `bytes` from a device address on, which stay valid while `owner` lives. `device`: its ordinal.
  DeviceMemory(void* address, std::size_t bytes, int device, std::shared_ptr<const void> owner)
      : address_(address), bytes_(bytes), device_(device), owner_(std::move(owner)) {}

  void* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  int device() const { return device_; }

  // Throws Error{Inputs}: reading a tensor's bytes in passing would wait for the device.
  void read(std::span<std::byte> to) const final;
  // As many bytes as there are, in the order of a stream; when they return the copy is done. Any
  // thread. Throw as calls do.
  virtual void download(std::span<std::byte> to, DeviceStream stream) const = 0;
  virtual void upload(std::span<const std::byte> from, DeviceStream stream) const = 0;

  // What comes on `behind` from here on begins once all that is on `ahead` has ended. Any thread.
  virtual void order(DeviceStream ahead, DeviceStream behind) const = 0;
  // Waits for all streams of the device: before memory is given back that was read on one of them.
  virtual void wait_for_device() const = 0;

 private:
  void* address_;
  std::size_t bytes_;
  int device_;
  std::shared_ptr<const void> owner_;
};

// Where a tensor lies on a device; null: on the host.
const DeviceMemory* device_memory_of(const ir::Tensor& tensor);

}  // namespace anydim::runtime
