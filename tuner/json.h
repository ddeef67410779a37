// Reading JSON that others wrote.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace anydim::tuner {

// Values are walked and written by recursion, so that their depth is bounded; nothing that Anydim
// writes is deeper than ten.
inline constexpr int deepest_json = 64;

// A discarded value where the text is no JSON, or where it nests deeper than deepest_json.
nlohmann::json parse_json(std::string_view text);
nlohmann::ordered_json parse_ordered_json(std::string_view text);

// As a message quotes it: on one line, cut where it is long.
std::string printable_json(const nlohmann::json& value);
std::string printable_json(const nlohmann::ordered_json& value);

// A string of JSON, in quotes and ASCII; what is no UTF-8 is replaced.
std::string quoted_json(std::string_view text);

// A whole number of 64 bits; throws Error{Malformed} for anything else. (get<std::int64_t>() takes
// fractions and wraps what is too large.)
std::int64_t integer_of(const nlohmann::json& value);
std::int64_t integer_of(const nlohmann::ordered_json& value);

}  // namespace anydim::tuner
