#include "runtime/constant_memory.h"

#include <algorithm>

namespace anydim::runtime {

namespace {

constexpr std::size_t block_bytes = std::size_t{32} << 20;
constexpr std::size_t alignment = 64;

}  // namespace

ConstantMemory::Place ConstantMemory::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!block_ || block_->bytes() - used_ < bytes) {
    block_ = std::make_shared<MemoryBlock>(std::max(bytes, block_bytes));
    nodes_.spread(block_->data(), block_->bytes());
    used_ = 0;
  }
  Place place{.block = block_, .bytes = block_->data() + used_};
  used_ = std::min((used_ + bytes + alignment - 1) / alignment * alignment, block_->bytes());
  return place;
}

ir::Tensor ConstantMemory::allocate(ir::DType dtype, std::vector<std::int64_t> dims) {
  const auto bytes = static_cast<std::size_t>(ir::byte_count(dtype, dims));
  if (bytes == 0) return {dtype, std::move(dims)};
  Place place = take(bytes);
  return ir::Tensor::over(dtype, std::move(dims), {place.bytes, bytes}, std::move(place.block));
}

}  // namespace anydim::runtime
