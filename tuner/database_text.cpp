#include "tuner/database_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/printable.h"
#include "tuner/database.h"
#include "tuner/json.h"

namespace anydim::tuner {

namespace {

constexpr Outcome outcomes[] = {Outcome::Ok,        Outcome::Wrong,       Outcome::Crashed,
                                Outcome::Hung,      Outcome::OutOfBounds, Outcome::OutOfMemory,
                                Outcome::Uncompiled};

nlohmann::json parsed(std::string_view text) {
  nlohmann::json value = parse_json(text);
  if (value.is_discarded())
    throw Error(ErrorKind::Malformed, "`{}` is no list of numbers", ir::printable(text));
  return value;
}

}  // namespace

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::Ok: return "ok";
    case Outcome::Wrong: return "wrong";
    case Outcome::Crashed: return "crashed";
    case Outcome::Hung: return "hung";
    case Outcome::OutOfBounds: return "out_of_bounds";
    case Outcome::OutOfMemory: return "out_of_memory";
    case Outcome::Uncompiled: return "uncompiled";
  }
  internal_error("an outcome is one of the enumerators");
}

Outcome parse_outcome(std::string_view text) {
  for (const Outcome outcome : outcomes) {
    if (text == name_of(outcome)) return outcome;
  }
  throw Error(ErrorKind::Malformed, "`{}` is no outcome of a measurement", ir::printable(text));
}

std::string keys_text(std::span<const std::int64_t> keys) {
  std::string text = "[";
  for (const std::int64_t key : keys) text += fmt::format("{}{}", text.size() > 1 ? "," : "", key);
  return text + "]";
}

std::vector<std::int64_t> parse_keys(std::string_view text) {
  const nlohmann::json list = parsed(text);
  std::vector<std::int64_t> keys;
  if (!list.is_array())
    throw Error(ErrorKind::Malformed, "`{}` is no list of whole numbers", ir::printable(text));
  for (const auto& value : list) keys.push_back(integer_of(value));
  return keys;
}

std::string bucket_text(const ir::Bucket& bucket) {
  std::string text = "[";
  for (const ir::BucketInterval& interval : bucket.intervals)
    text += fmt::format("{}[{},{},{}]", text.size() > 1 ? "," : "", interval.low, interval.high,
                        interval.multiple);
  return text + "]";
}

ir::Bucket bucket_of(const nlohmann::json& lists) {
  const auto wrong = [&] {
    return Error(ErrorKind::Malformed, "`{}` is no bucket: a list of [low, high, multiple]",
                 printable_json(lists));
  };
  if (!lists.is_array()) throw wrong();
  ir::Bucket bucket;
  for (const auto& list : lists) {
    if (!list.is_array() || list.size() != 3) throw wrong();
    bucket.intervals.push_back({integer_of(list[0]), integer_of(list[1]), integer_of(list[2])});
    const ir::BucketInterval& interval = bucket.intervals.back();
    if (interval.low < 0 || interval.high < interval.low || interval.multiple < 1) throw wrong();
  }
  return bucket;
}

ir::Bucket parse_bucket(std::string_view text) { return bucket_of(parsed(text)); }

}  // namespace anydim::tuner
