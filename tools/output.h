// The command's two streams. Whatever is written passes here, so that no name of others reaches a
// terminal with its control characters.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <utility>

namespace anydim::tools {

// Makes sure that no file which is opened later takes the number of a standard stream that was
// closed: reading gives nothing, writing fails.
void hold_standard_streams();

// To standard output; what must not be shown is escaped, line ends are kept. Throws Error{Write}.
void put_text(std::string_view text);
template <typename... Args>
void put(fmt::format_string<Args...> format, Args&&... args) {
  put_text(fmt::format(format, std::forward<Args>(args)...));
}
// One line of ASCII. Throws Error{Write}.
void put_json(const nlohmann::json& value);
void put_json(const nlohmann::ordered_json& value);
// What was printed leaves the process. Throws Error{Write}.
void flush_output();

// To standard error, escaped likewise; lost where that cannot be written. The second writes exactly
// these bytes.
void complain(std::string_view text);
void complain_exactly(std::string_view text);

}  // namespace anydim::tools
