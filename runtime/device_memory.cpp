#include "runtime/device_memory.h"

#include "ir/error.h"

namespace anydim::runtime {

void DeviceMemory::read(std::span<std::byte>) const {
  throw Error(ErrorKind::Inputs,
              "a tensor in memory of GPU {} was read on the host: expected a tensor in host "
              "memory; copy it there first, in the order of the stream that writes it",
              device_);
}

const DeviceMemory* device_memory_of(const ir::Tensor& tensor) {
  return dynamic_cast<const DeviceMemory*>(tensor.source());
}

}  // namespace anydim::runtime
