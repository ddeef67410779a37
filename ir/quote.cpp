#include "ir/quote.h"

#include <algorithm>
#include <cstddef>

namespace anydim::ir {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_character(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.'; }

// Length of the well-formed UTF-8 sequence at `at`, 0 where there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xbf;  // of the second byte: excludes overlong forms, surrogates and what is past U+10FFFF
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

void append_escaped(std::string& out, unsigned char byte) {
  constexpr char digits[] = "0123456789abcdef";
  out += "\\x";
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

}  // namespace

bool is_plain_symbol(std::string_view name) {
  return !name.empty() && is_letter(name.front()) && std::all_of(name.begin(), name.end(), is_name_character);
}

bool is_plain_name(std::string_view name) { return !name.empty() && std::all_of(name.begin(), name.end(), is_name_character); }

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) {
      const std::size_t length = utf8_length(text, i);
      if (length > 0) {
        out += text.substr(i, length);
        i += length;
        continue;
      }
      append_escaped(out, byte);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      append_escaped(out, byte);
    } else {
      out += c;
    }
    ++i;
  }
  out += '"';
  return out;
}

std::string symbol_text(std::string_view name) { return is_plain_symbol(name) ? std::string(name) : quote(name); }
std::string value_text(std::string_view name) { return "%" + (is_plain_name(name) ? std::string(name) : quote(name)); }
std::string global_text(std::string_view name) { return "@" + (is_plain_name(name) ? std::string(name) : quote(name)); }

}  // namespace anydim::ir
