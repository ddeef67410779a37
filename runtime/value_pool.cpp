#include "runtime/value_pool.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace anydim::runtime {

namespace {

constexpr std::size_t least_block = 64;
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

// A large block's memory goes with it: behind the counts, in the header.
struct LargeHeader {
  Shared shared;
  MemoryBlock memory;
};

}  // namespace

ValuePool::~ValuePool() = default;

std::size_t ValuePool::rounded(std::size_t bytes) { return size_of_class(class_of(bytes)); }

std::size_t ValuePool::size_of(const Shared& block) { return size_of_class(block.size_class); }

Value ValuePool::take(std::size_t bytes) {
  const std::uint32_t size_class = class_of(bytes);
  const std::size_t whole = size_of_class(size_class);
  std::byte* start = nullptr;
  MemoryBlock memory;
  if (!free_[size_class].empty()) {
    start = free_[size_class].back().start;
    memory = std::move(free_[size_class].back().memory);
    free_[size_class].pop_back();
  } else if (whole >= large_block) {
    memory = MemoryBlock(whole + header_bytes);
    start = memory.data();
  } else {
    if (chunks_.empty() || chunks_.back().bytes() - chunk_used_ < whole + header_bytes) {
      chunks_.emplace_back(chunk_bytes);
      chunk_used_ = 0;
    }
    start = chunks_.back().data() + chunk_used_;
    chunk_used_ += whole + header_bytes;
  }
  static_assert(sizeof(LargeHeader) <= header_bytes);
  Shared* shared = nullptr;
  if (whole >= large_block) shared = &(new (start) LargeHeader{{.size_class = size_class}, std::move(memory)})->shared;
  else shared = new (start) Shared{.size_class = size_class};
  used_ += whole;
  return {start + header_bytes, shared};
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
  const std::uint32_t size_class = value.owner->size_class;
  const std::size_t whole = size_of_class(size_class);
  Free free{.start = reinterpret_cast<std::byte*>(value.owner), .call = call_};
  if (whole >= large_block) {
    auto* header = reinterpret_cast<LargeHeader*>(value.owner);
    free.memory = std::move(header->memory);
    header->~LargeHeader();
  }
  used_ -= whole;
  free_[size_class].push_back(std::move(free));
}

void ValuePool::end_call() {
  for (std::uint32_t size_class = class_of(large_block); size_class < classes; ++size_class) {
    std::erase_if(free_[size_class], [&](const Free& free) { return free.memory.data() != nullptr && free.call + 1 < call_; });
  }
  ++call_;
}

}  // namespace anydim::runtime
