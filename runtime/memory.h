// Blocks of memory for activations, scratch and outputs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace anydim::runtime {

// Aligned to 64 bytes or more and not initialised: of the heap where it is small, so that callers
// can hold many, else whole pages straight from the system; large blocks are aligned to huge pages
// and ask for them. Goes back with the object.
class MemoryBlock {
 public:
  MemoryBlock() = default;
  explicit MemoryBlock(std::size_t bytes);  // throws Error{Resource}
  ~MemoryBlock();
  MemoryBlock(MemoryBlock&& other) noexcept;
  MemoryBlock& operator=(MemoryBlock&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Memory that grows to the largest size asked for and no further. Growing loses the contents.
class GrowingMemory {
 public:
  std::byte* reserve(std::size_t bytes);  // throws Error{Resource}; then the memory is empty and
                                          // can be asked again
  std::byte* data() const { return block_.data(); }
  std::size_t bytes() const { return block_.bytes(); }

 private:
  MemoryBlock block_;
};

// Blocks that callers hold for a while and then hand back by dropping the last reference, from any
// thread. At most `kept` free blocks stay for the next call, the largest ones. A Block has data()
// and bytes(), can be moved and is null by default.
template <typename Block>
class BlockPoolOf {
 public:
  using Make = std::function<Block(std::size_t bytes)>;
  BlockPoolOf(std::size_t kept, Make make)
      : make_(std::move(make)), shelf_(std::make_shared<Shelf>()) {
    shelf_->kept = kept;
  }

  // Throws what making a block throws.
  std::shared_ptr<std::byte> take(std::size_t bytes) {
    Block block, replaced;
    {
      const std::lock_guard lock(shelf_->mutex);
      std::vector<Block>& free = shelf_->free;  // by size, ascending
      auto fitting = std::find_if(free.begin(), free.end(), [&](const Block& candidate) {
        return candidate.bytes() >= bytes;
      });
      if (fitting != free.end()) {
        block = std::move(*fitting);
        free.erase(fitting);
      } else if (!free.empty()) {
        replaced = std::move(free.back());  // what replaces it is larger
        free.pop_back();
      }
    }
    replaced = Block();  // given back before more is asked for
    if (block.data() == nullptr) block = make_(bytes);
    std::byte* data = block.data();
    auto held = std::make_shared<Block>(std::move(block));
    return {data, [shelf = shelf_, held](std::byte*) { give_back(*shelf, std::move(*held)); }};
  }

 private:
  struct Shelf {
    std::mutex mutex;
    std::vector<Block> free;
    std::size_t kept = 0;
  };
  static void give_back(Shelf& shelf, Block block) {
    Block surplus;  // freed outside the lock
    const std::lock_guard lock(shelf.mutex);
    std::vector<Block>& free = shelf.free;
    const auto place = std::find_if(free.begin(), free.end(), [&](const Block& other) {
      return other.bytes() > block.bytes();
    });
    free.insert(place, std::move(block));
    if (free.size() > shelf.kept) {
      surplus = std::move(free.front());
      free.erase(free.begin());
    }
  }

  Make make_;
  std::shared_ptr<Shelf> shelf_;  // outlives the pool while blocks are out
};

// Blocks of this process's memory. take() throws Error{Resource}.
class BlockPool : public BlockPoolOf<MemoryBlock> {
 public:
  explicit BlockPool(std::size_t kept)
      : BlockPoolOf(kept, [](std::size_t bytes) { return MemoryBlock(bytes); }) {}
};

// Tells the system that these pages of read-only file mappings aren't needed now (they would be
// read again from the file). Whatever part of the range isn't a read-only mapping of a file is left
// alone.
void release_file_pages(const std::byte* begin, std::size_t bytes);

}  // namespace anydim::runtime
