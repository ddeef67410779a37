// Blocks of memory for activations, scratch and outputs.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace anydim::runtime {

// Whole pages straight from the system, not initialised beyond what the system gives, aligned to 64 bytes or more; large blocks are
// aligned to huge pages and ask for them. Goes back to the system with the object.
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
  std::byte* reserve(std::size_t bytes);  // throws Error{Resource}; then the memory is empty and can be asked again
  std::byte* data() const { return block_.data(); }
  std::size_t bytes() const { return block_.bytes(); }

 private:
  MemoryBlock block_;
};

// Blocks that callers hold for a while and then hand back by dropping the last reference, from any thread. At most `kept` free blocks stay
// for the next call, the largest ones.
class BlockPool {
 public:
  explicit BlockPool(std::size_t kept);
  std::shared_ptr<std::byte> take(std::size_t bytes);  // throws Error{Resource}

 private:
  struct Shelf {
    std::mutex mutex;
    std::vector<MemoryBlock> free;
    std::size_t kept = 0;
  };
  static void give_back(Shelf& shelf, MemoryBlock block);
  std::shared_ptr<Shelf> shelf_;  // outlives the pool while blocks are out
};

// Tells the system that these pages of read-only file mappings aren't needed now (they would be read again from the file). Whatever
// part of the range isn't a read-only mapping of a file is left alone.
void release_file_pages(const std::byte* begin, std::size_t bytes);

}  // namespace anydim::runtime
