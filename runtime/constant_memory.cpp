#include "runtime/constant_memory.h"

#include <algorithm>
#include <cstring>

namespace anydim::runtime {

namespace {

constexpr std::size_t block_bytes = std::size_t{32} << 20;
constexpr std::size_t alignment = 64;

}  // namespace

ConstantMemory::Place ConstantMemory::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!block_ || block_->bytes() - used_ < bytes) {
    block_ = std::make_shared<MemoryBlock>(std::max(bytes, block_bytes));
    used_ = 0;
  }
  Place place{.block = block_, .bytes = block_->data() + used_};
  used_ = std::min((used_ + bytes + alignment - 1) / alignment * alignment, block_->bytes());
  return place;
}

ir::Tensor ConstantMemory::keep(const ir::Tensor& tensor) {
  const std::span<const std::byte> from = tensor.bytes();
  if (from.empty()) return tensor;
  Place place = take(from.size());
  std::memcpy(place.bytes, from.data(), from.size());
  return {tensor.dtype(), tensor.dims(), {place.bytes, from.size()}, std::move(place.block), tensor.origin()};
}

}  // namespace anydim::runtime
