// Device memory of tensors: a caller's, and what results take where they are to stay on the GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/cuda_context.h"
#include "runtime/device_memory.h"
#include "runtime/memory.h"

namespace anydim::runtime::cuda {

class TensorMemory : public DeviceMemory {
 public:
  TensorMemory(std::shared_ptr<DeviceContext> context, Address address, std::size_t bytes,
               std::shared_ptr<const void> owner);
  Address place() const { return reinterpret_cast<Address>(address()); }
  const DeviceContext& context() const { return *context_; }
  void download(std::span<std::byte> to, DeviceStream stream) const override;
  void upload(std::span<const std::byte> from, DeviceStream stream) const override;
  void order(DeviceStream ahead, DeviceStream behind) const override;
  void wait_for_device() const override;

 private:
  void wait(DeviceStream stream) const;
  std::shared_ptr<DeviceContext> context_;
};

// Device::foreign for a GPU.
ir::Tensor foreign_tensor(const std::shared_ptr<DeviceContext>& context, ir::DType dtype,
                          std::vector<std::int64_t> dims, void* address,
                          std::shared_ptr<const void> owner);

// An allocation of its own, which any thread may give back.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  // Throws Error{Resource}; `what` is for its message.
  DeviceBlock(std::shared_ptr<DeviceContext> context, std::size_t bytes, std::string_view what);
  ~DeviceBlock();
  DeviceBlock(DeviceBlock&& other) noexcept;
  DeviceBlock& operator=(DeviceBlock&& other) noexcept;

  std::byte* data() const { return data_; }  // a device address
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<DeviceContext> context_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Memory of results, kept apart by the stream of the calls that fill it: a call waits for all that
// the caller has put on its stream, so what reads a block there is done when the next call writes
// it, whenever the caller dropped it.
class ResultBlocks {
 public:
  // `kept`: free blocks of a stream. Throws Error{Resource}.
  ResultBlocks(std::shared_ptr<DeviceContext> context, std::size_t kept)
      : context_(std::move(context)), kept_(kept) {}
  std::shared_ptr<std::byte> take(std::size_t bytes, const void* stream);

 private:
  static constexpr std::size_t most_streams = 4;  // that keep free blocks, the last ones used
  struct OfStream {
    const void* stream = nullptr;
    BlockPoolOf<DeviceBlock> blocks;
  };
  std::shared_ptr<DeviceContext> context_;
  std::size_t kept_;
  std::vector<std::unique_ptr<OfStream>> streams_;  // the last one used comes last
};

}  // namespace anydim::runtime::cuda
