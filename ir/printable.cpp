#include "ir/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace anydim::ir {
namespace {

struct CodePoints {
  char32_t first, last;
};

// Control characters, separators of lines and paragraphs, and Unicode's default-ignorable
// characters, which include those that turn the direction of text.
constexpr CodePoints hidden[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},    {0x61c, 0x61c},
    {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},  {0x2028, 0x202e},
    {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},  {0xffa0, 0xffa0},
    {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

// Length of the well-formed UTF-8 sequence at `at`, 0 where there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xbf;  // of the second byte: excludes overlong forms, surrogates
                                          // and what is past U+10FFFF
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  }
  if (length == 0 || at + length > text.size()) return 0;
  if (byte(at + 1) < low || byte(at + 1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(at + i) < 0x80 || byte(at + i) > 0xbf) return 0;
  }
  return length;
}

char32_t code_point(std::string_view sequence) {
  constexpr unsigned char leading[] = {0, 0x7f, 0x1f, 0x0f,
                                       0x07};  // the bits of a first byte, by length
  char32_t point = static_cast<unsigned char>(sequence[0]) & leading[sequence.size()];
  for (const char c : sequence.substr(1))
    point = point << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return point;
}

struct Shown {
  std::string text;
  std::size_t taken = 0;  // bytes of the original
};

// As many whole characters as `longest` bytes of the original hold.
Shown shown(std::string_view text, std::size_t longest, bool lines) {
  Shown result;
  while (result.taken < text.size()) {
    const std::size_t length = shown_length(text, result.taken);
    if (result.taken + std::max<std::size_t>(length, 1) > longest) break;
    const char c = text[result.taken];
    if (length > 0) result.text += text.substr(result.taken, length);
    else if (lines && c == '\n') result.text += c;
    else append_escaped(result.text, static_cast<unsigned char>(c));
    result.taken += std::max<std::size_t>(length, 1);
  }
  return result;
}

}  // namespace

std::size_t shown_length(std::string_view text, std::size_t at) {
  const std::size_t length = utf8_length(text, at);
  if (length == 0) return 0;
  const char32_t point = code_point(text.substr(at, length));
  const auto* range = std::ranges::lower_bound(hidden, point, {}, &CodePoints::last);
  return range != std::end(hidden) && point >= range->first ? 0 : length;
}

void append_escaped(std::string& out, unsigned char byte) {
  fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
}

std::string printable(std::string_view text) {
  Shown name = shown(text, longest_printable, false);
  return name.taken < text.size() ? name.text + "..." : std::move(name.text);
}

std::string printable_lines(std::string_view text) { return shown(text, text.size(), true).text; }

std::string printable_message(std::string_view text) {
  Shown message = shown(text, longest_message, true);
  if (message.taken == text.size()) return std::move(message.text);
  return fmt::format("{}... (cut: {} more bytes)", message.text, text.size() - message.taken);
}

}  // namespace anydim::ir
