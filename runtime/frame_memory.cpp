#include "runtime/frame_memory.h"

#include <cstring>
#include <utility>

#include "runtime/memory.h"

namespace anydim::runtime {

std::shared_ptr<std::byte> HostFrameMemory::take(std::size_t bytes) {
  auto block = std::make_shared<MemoryBlock>(bytes);
  std::byte* place = block->data();
  return {std::move(block), place};
}

void HostFrameMemory::copy_rows(std::byte* to, std::size_t stride, const std::byte* from,
                                std::size_t bytes, std::size_t rows) {
  for (std::size_t row = 0; row < rows; ++row)
    std::memcpy(to + row * stride, from + row * bytes, bytes);
}

void HostFrameMemory::write(std::byte* to, std::span<const std::byte> number) {
  std::memcpy(to, number.data(), number.size());
}

}  // namespace anydim::runtime
