// Dims as bytes, for cached kernels.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ir/dims/dim.h"

namespace anydim::runtime {

class ByteWriter {
 public:
  template <typename Number>
  void number(Number value) {
    static_assert(std::is_trivially_copyable_v<Number>);
    raw({reinterpret_cast<const std::byte*>(&value), sizeof value});
  }
  void raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view text);
  void dim(const ir::Dim& dim);
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Every read past the end, and a dim that no writer makes, throws Error{Malformed}.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <typename Number>
  Number number() {
    static_assert(std::is_trivially_copyable_v<Number>);
    Number value;
    const auto bytes = raw(sizeof value);
    std::byte* target = reinterpret_cast<std::byte*>(&value);
    for (std::size_t i = 0; i < sizeof value; ++i) target[i] = bytes[i];
    return value;
  }
  std::span<const std::byte> raw(std::size_t bytes);
  std::string text();
  ir::Dim dim() { return dim(0); }
  std::span<const std::byte> rest() const { return rest_; }

 private:
  ir::Dim dim(int depth);
  std::span<const std::byte> rest_;
};

}  // namespace anydim::runtime
