// Memory that is taken and given back in opposite order: arena segments of blocks and calls.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/frame_memory.h"

namespace anydim::runtime {

// What was taken stays where it is until it is released. Memory that one call had to take in
// several chunks is one chunk for the next.
class FrameStack {
 public:
  explicit FrameStack(FrameMemory& memory) : memory_(memory) {}  // `memory` outlives this
  struct Mark {
    std::size_t chunk = 0, used = 0;  // of that chunk
    std::size_t taken = 0;            // in all
  };

  // Aligned to 64 bytes. Throws Error{Resource}; then nothing was taken.
  std::byte* take(std::size_t bytes);
  Mark mark() const { return top_; }
  void release(const Mark& mark) { top_ = mark; }  // everything taken since
  void clear();                                    // everything; for the next call
  std::size_t taken() const { return top_.taken; }

 private:
  struct Chunk {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
  };
  FrameMemory& memory_;
  std::vector<Chunk> chunks_;
  Mark top_;
  std::size_t most_ = 0;  // ever taken at once
};

}  // namespace anydim::runtime
