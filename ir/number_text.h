// Numbers as text, and back.
#pragma once

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace anydim::ir {

// The number that all of `text` is, as std::from_chars reads it; nothing where it is none or one
// that does not fit.
template <typename Number>
std::optional<Number> parsed_number(std::string_view text) {
  Number number{};
  const char* const last = text.data() + text.size();
  const auto [end, fault] = std::from_chars(text.data(), last, number);
  return fault == std::errc{} && end == last ? std::optional(number) : std::nullopt;
}

// The shortest text that reads as the number.
template <typename Number>
void append_number(std::string& out, Number value) {
  std::array<char, 40> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out.append(buffer.data(), result.ptr);
}

}  // namespace anydim::ir
