#include "ir/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/number_text.h"
#include "ir/printable.h"

namespace anydim::ir {

namespace {

// Twice what any generator's schedules have.
constexpr std::size_t most_fields = 64;

}  // namespace

std::optional<std::int64_t> Schedule::find(std::string_view key) const {
  for (const auto& [name_of_field, value] : fields) {
    if (name_of_field == key) return value;
  }
  return std::nullopt;
}

std::int64_t Schedule::field(std::string_view key) const {
  const auto found = find(key);
  if (!found)
    internal_error(fmt::format("the schedule `{}` has a field {}", to_string(*this), key));
  return *found;
}

std::string to_string(const Schedule& schedule) {
  std::string text = schedule.name;
  for (const auto& [name, value] : schedule.fields) text += fmt::format(" {}={}", name, value);
  return text;
}

Schedule parse_schedule(std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::Malformed, "the schedule `{}` is not `NAME FIELD=INTEGER ...`: {}",
                printable(text), why);
  };
  Schedule schedule;
  bool first = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (first) {
      if (word.find('=') != std::string_view::npos) refuse("it starts with a field");
      schedule.name = word;
      first = false;
      continue;
    }
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0)
      refuse(fmt::format("`{}` is no field", printable(word)));
    const auto value = parsed_number<std::int64_t>(word.substr(equals + 1));
    if (!value) refuse(fmt::format("`{}` has no 64-bit integer", printable(word)));
    const std::string key(word.substr(0, equals));
    if (schedule.find(key)) refuse(fmt::format("the field {} appears twice", printable(key)));
    if (schedule.fields.size() == most_fields)
      refuse(fmt::format("it has more than {} fields", most_fields));
    schedule.fields.emplace_back(key, *value);
  }
  if (first) refuse("it has no name");
  return schedule;
}

std::int64_t BucketInterval::size_from(std::int64_t size) const {
  const std::int64_t least = std::max({size, low, std::int64_t{1}});
  const std::int64_t over = multiple > 1 ? least % multiple : 0;
  const std::int64_t missing = over == 0 ? 0 : multiple - over;
  return least > high || missing > high - least ? high : least + missing;
}

bool Bucket::contains(std::span<const std::int64_t> keys) const {
  internal_check(keys.size() == intervals.size(), "a bucket has an interval a key");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const BucketInterval& interval = intervals[i];
    if (keys[i] < interval.low || keys[i] > interval.high || keys[i] % interval.multiple != 0)
      return false;
  }
  return true;
}

bool contains(const Bucket& outer, const Bucket& inner) {
  return std::ranges::equal(
      outer.intervals, inner.intervals, [](const BucketInterval& out, const BucketInterval& in) {
        return out.low <= in.low && out.high >= in.high && in.multiple % out.multiple == 0;
      });
}

std::string_view name_of(EntryOrigin origin) {
  switch (origin) {
    case EntryOrigin::CostModel: return "predicted";
    case EntryOrigin::TunedPredicted: return "tuned, predicted";
    case EntryOrigin::TunedMeasured: return "tuned, measured";
  }
  internal_error("an entry's origin is one of the enumerators");
}

std::string to_string(const Bucket& bucket) {
  if (bucket.intervals.empty()) return "any";
  std::string text;
  for (const BucketInterval& interval : bucket.intervals) {
    text += fmt::format("{}[{}, {}]", text.empty() ? "" : " x ", interval.low, interval.high);
    if (interval.multiple != 1) text += fmt::format(" multiple {}", interval.multiple);
  }
  return text;
}

std::vector<Schedule> joined(std::vector<Schedule> first, std::vector<Schedule> more) {
  std::set<std::string> known;
  for (const Schedule& schedule : first) known.insert(to_string(schedule));
  for (Schedule& schedule : more)
    if (known.insert(to_string(schedule)).second) first.push_back(std::move(schedule));
  return first;
}

}  // namespace anydim::ir
