#include "ir/quote.h"

#include <algorithm>
#include <cstddef>

#include "ir/printable.h"

namespace anydim::ir {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_character(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.'; }

}  // namespace

bool is_plain_symbol(std::string_view name) {
  return !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_character);
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (const std::size_t length = shown_length(text, i); length > 0) {
      out += text.substr(i, length);
      i += length;
      continue;
    } else {
      append_escaped(out, static_cast<unsigned char>(c));
    }
    ++i;
  }
  out += '"';
  return out;
}

std::string symbol_text(std::string_view name) {
  return is_plain_symbol(name) ? std::string(name) : quote(name);
}
std::string value_text(std::string_view name) {
  return "%" + (is_plain_name(name) ? std::string(name) : quote(name));
}
std::string global_text(std::string_view name) {
  return "@" + (is_plain_name(name) ? std::string(name) : quote(name));
}

}  // namespace anydim::ir
