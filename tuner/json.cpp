#include "tuner/json.h"

#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/printable.h"

namespace anydim::tuner {

namespace {

struct TooDeep {};

template <typename Json>
Json parse_shallow(std::string_view text) {
  const auto check_depth = [](int depth, typename Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::array_start || event == Json::parse_event_t::object_start;
    if (opens && depth >= deepest_json) throw TooDeep{};
    return true;
  };
  try {
    return Json::parse(text, check_depth, false);
  } catch (const TooDeep&) {
    return Json(Json::value_t::discarded);
  }
}

template <typename Json>
std::string text_of(const Json& value) {
  return ir::printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

template <typename Json>
std::int64_t whole(const Json& value) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.template get<std::uint64_t>() > INT64_MAX))
    throw Error(ErrorKind::Malformed, "`{}` is no whole number of 64 bits", text_of(value));
  return value.template get<std::int64_t>();
}

}  // namespace

nlohmann::json parse_json(std::string_view text) { return parse_shallow<nlohmann::json>(text); }
nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return parse_shallow<nlohmann::ordered_json>(text);
}

std::string printable_json(const nlohmann::json& value) { return text_of(value); }
std::string printable_json(const nlohmann::ordered_json& value) { return text_of(value); }

std::string quoted_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::int64_t integer_of(const nlohmann::json& value) { return whole(value); }
std::int64_t integer_of(const nlohmann::ordered_json& value) { return whole(value); }

}  // namespace anydim::tuner
