// Where the values of one context lie, and who copies them: this process's memory, or a GPU's in
// the order of its stream.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace anydim::runtime {

class FrameMemory {
 public:
  virtual ~FrameMemory() = default;
  // Aligned to 64 bytes; goes back with the last reference. Throws Error{Resource}.
  virtual std::shared_ptr<std::byte> take(std::size_t bytes) = 0;
  // Whether each taking is to stay apart: then nothing is taken in advance, and no block serves
  // twice. For tests that watch what lies around.
  virtual bool apart() const { return false; }
  // `rows` pieces of `bytes` bytes each, one after the other at `from`, `stride` bytes apart at
  // `to`.
  virtual void copy_rows(std::byte* to, std::size_t stride, const std::byte* from,
                         std::size_t bytes, std::size_t rows) = 0;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    copy_rows(to, bytes, from, bytes, 1);
  }
  // A number of the host, at most 8 bytes long.
  virtual void write(std::byte* to, std::span<const std::byte> number) = 0;
};

// This process's memory.
class HostFrameMemory : public FrameMemory {
 public:
  std::shared_ptr<std::byte> take(std::size_t bytes) override;
  void copy_rows(std::byte* to, std::size_t stride, const std::byte* from, std::size_t bytes,
                 std::size_t rows) override;
  void write(std::byte* to, std::span<const std::byte> number) override;
};

}  // namespace anydim::runtime
