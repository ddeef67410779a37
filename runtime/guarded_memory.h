// Memory for code that is not trusted yet: a write outside it either faults or leaves a mark.
#pragma once

#include <cstddef>

namespace anydim::runtime {

// Starts at a multiple of 64 bytes. The bytes beside it up to whole pages hold a pattern; beyond
// them lie pages that may not be touched.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t bytes);  // poisoned; throws Error{Resource}
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  void poison();          // every byte 0xff: a NaN, or -1
  void forbid_writing();  // a write faults from here on
  bool unharmed() const;  // the pattern is whole

 private:
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0, used_ = 0, mapped_ = 0;
};

// Exit code of a process that touched pages which it may not, once exit_on_forbidden_access() was
// called. Other faults end it by their signal.
inline constexpr int forbidden_access_exit = 86;
void exit_on_forbidden_access();

}  // namespace anydim::runtime
