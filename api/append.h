// Texts that are put together piece by piece.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

namespace anydim {

template <typename... Parts>
void append(std::string& text, fmt::format_string<Parts...> format, Parts&&... parts) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Parts>(parts)...);
}

}  // namespace anydim
