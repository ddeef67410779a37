// Machine code mapped into the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace anydim::runtime {

// Copies position-independent code to fresh pages that are writable first and executable after,
// never both at once; unmapped by the destructor. Throws Error{Resource} where the system refuses
// memory or executable pages.
class CodeMemory {
 public:
  explicit CodeMemory(std::span<const std::byte> code);
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;

  // The function at `offset`, which the caller knows to be a Function*.
  template <typename Function>
  Function function(std::int64_t offset) const {
    return reinterpret_cast<Function>(address_ + offset);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* address_ = nullptr;
  std::size_t bytes_ = 0;  // mapped, whole pages
};

// Calls code that a backend made. -fsanitize=function looks for a type signature before a
// function's first byte, which such code lacks.
template <typename Function, typename... Arguments>
[[clang::no_sanitize("function")]] auto call_generated(Function* function, Arguments... arguments) {
  return function(arguments...);
}

}  // namespace anydim::runtime
