// Values that outlive the block that computes them: blocks of memory and objects (lists, tuples,
// function values), counted references to both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/frame_memory.h"

namespace anydim::runtime {

class ValuePool;

// What a reference counts. One context's values are used by one thread at a time.
struct Shared {
  std::int64_t references = 1;
  std::uint32_t size_class = 0;  // of a block
  bool object = false;
};

// One entry of a frame's table of buffers: where a tensor's bytes lie, or an object. `owner` is
// null where something else keeps the memory (an arena segment, the caller's frame); values that
// last the whole call (inputs, constants, outputs) have `whole_call()`.
struct Value {
  std::byte* data = nullptr;
  Shared* owner = nullptr;
};

// A list, a tuple, or a function value (its first arguments).
struct Object : Shared {
  struct Element {
    Value value;                     // owned
    std::vector<std::int64_t> dims;  // of a tensor
  };
  std::vector<Element> elements;
  std::int32_t function = -1;  // index into Program::functions
};

class ValuePool {
 public:
  explicit ValuePool(FrameMemory& memory) : memory_(memory) {}  // `memory` outlives this
  ValuePool(const ValuePool&) = delete;
  ValuePool& operator=(const ValuePool&) = delete;

  // Of blocks, in bytes: what kernels expect of every buffer.
  static constexpr std::int64_t alignment = 64;

  // A block that the caller owns. Throws Error{Resource}.
  Value take(std::size_t bytes);
  Value make(Object object);  // owned by the caller

  Value share(const Value& value) {
    if (value.owner != nullptr && value.owner != &whole_call_) ++value.owner->references;
    return value;
  }
  void drop(Value& value) {
    if (value.owner != nullptr && value.owner != &whole_call_ && --value.owner->references == 0)
      destroy(value);
    value = {};
  }
  Shared* whole_call() { return &whole_call_; }

  // Bytes that a block of `bytes` takes here; those from the value's place to the end of its block,
  // 0 where it has none; those of all blocks that are out.
  static std::size_t rounded(std::size_t bytes);
  std::size_t room(const Value& value) const;
  std::size_t used() const { return used_; }
  void end_call();  // large blocks that two calls in a row did not need go back to the system

 private:
  static constexpr std::size_t classes = 256;
  struct Block : Shared {
    std::byte* data = nullptr;
    std::shared_ptr<std::byte> memory;  // of a large block
    std::uint64_t call = 0;             // that gave it back
  };
  void destroy(Value& value);

  FrameMemory& memory_;
  Shared whole_call_;
  std::array<std::vector<std::unique_ptr<Block>>, classes> free_;
  std::vector<std::shared_ptr<std::byte>> chunks_;  // of small blocks
  std::size_t chunk_left_ = 0;                      // bytes of the last one
  std::size_t used_ = 0;
  std::uint64_t call_ = 0;
};

}  // namespace anydim::runtime
