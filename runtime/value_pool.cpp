#include "runtime/value_pool.h"

#include <bit>
#include <utility>

namespace anydim::runtime {

namespace {

constexpr std::size_t least_block = ValuePool::alignment;
constexpr std::size_t chunk_bytes = std::size_t{256} << 10;
constexpr std::size_t large_block = std::size_t{32} << 10;

// Four sizes to each power of two.
std::uint32_t class_of(std::size_t bytes) {
  if (bytes <= least_block) return 0;
  const std::size_t units = (bytes - 1) / least_block;  // at least 1
  const auto power = static_cast<std::uint32_t>(std::bit_width(units)) - 1;
  if (power < 2) return static_cast<std::uint32_t>(units);
  const auto quarter = static_cast<std::uint32_t>(units >> (power - 2)) & 3U;
  return 4 + (power - 2) * 4 + quarter;
}

std::size_t size_of_class(std::uint32_t size_class) {
  if (size_class < 4) return (size_class + 1) * least_block;
  const std::uint32_t power = (size_class - 4) / 4 + 2, quarter = (size_class - 4) % 4;
  return ((std::size_t{4} + quarter + 1) << (power - 2)) * least_block;
}

}  // namespace

std::size_t ValuePool::rounded(std::size_t bytes) { return size_of_class(class_of(bytes)); }

std::size_t ValuePool::room(const Value& value) const {
  if (value.owner == nullptr || value.owner == &whole_call_ || value.owner->object) return 0;
  const auto& block = static_cast<const Block&>(*value.owner);
  return size_of_class(block.size_class) - static_cast<std::size_t>(value.data - block.data);
}

Value ValuePool::take(std::size_t bytes) {
  const std::uint32_t size_class = class_of(bytes);
  const std::size_t whole = size_of_class(size_class);
  std::unique_ptr<Block> block;
  if (!free_[size_class].empty()) {
    block = std::move(free_[size_class].back());
    free_[size_class].pop_back();
    block->references = 1;
  } else {
    block = std::make_unique<Block>();
    block->size_class = size_class;
    if (whole >= large_block) {
      block->memory = memory_.take(whole);
      block->data = block->memory.get();
    } else {
      if (chunk_left_ < whole) {
        chunks_.push_back(memory_.take(chunk_bytes));
        chunk_left_ = chunk_bytes;
      }
      block->data = chunks_.back().get() + (chunk_bytes - chunk_left_);
      chunk_left_ -= whole;
    }
  }
  used_ += whole;
  std::byte* data = block->data;
  return {data, block.release()};
}

Value ValuePool::make(Object object) {
  auto* made = new Object(std::move(object));
  made->references = 1;
  made->object = true;
  return {nullptr, made};
}

void ValuePool::destroy(Value& value) {
  if (value.owner->object) {
    auto* object = static_cast<Object*>(value.owner);
    for (Object::Element& element : object->elements) drop(element.value);
    delete object;
    return;
  }
  std::unique_ptr<Block> block(static_cast<Block*>(value.owner));
  block->call = call_;
  used_ -= size_of_class(block->size_class);
  free_[block->size_class].push_back(std::move(block));
}

void ValuePool::end_call() {
  for (std::uint32_t size_class = class_of(large_block); size_class < classes; ++size_class) {
    std::erase_if(free_[size_class],
                  [&](const std::unique_ptr<Block>& block) { return block->call + 1 < call_; });
  }
  ++call_;
}

}  // namespace anydim::runtime
