// Schedules as structs: a struct lists its fields once, as the text form has them, and is read from
// and written to ir::Schedule by that list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/schedule.h"

namespace anydim::ir {

// One field of `Struct`: its name in the text and the member, an integer, a bool or an enum, whose
// number the text has. With `absent` the text leaves the field out where it has that number.
template <typename Struct, typename Member>
struct ScheduleField {
  std::string_view name;
  Member Struct::* member;
  std::optional<std::int64_t> absent{};
};
template <typename Struct, typename Member, typename... Absent>
ScheduleField(std::string_view, Member Struct::*, Absent...) -> ScheduleField<Struct, Member>;

// `Struct::fields()` is a tuple of ScheduleFields in the order of the text. Internal error where
// the schedule lacks one that may not be absent.
template <typename Struct>
Struct read_fields(const Schedule& schedule) {
  Struct result;
  const auto read = [&]<typename Member>(const ScheduleField<Struct, Member>& field) {
    const std::int64_t number = field.absent ? schedule.find(field.name).value_or(*field.absent)
                                             : schedule.field(field.name);
    result.*field.member = static_cast<Member>(number);
  };
  std::apply([&](const auto&... fields) { (read(fields), ...); }, Struct::fields());
  return result;
}

template <typename Struct>
Schedule write_fields(std::string name, const Struct& from) {
  Schedule schedule{.name = std::move(name), .fields = {}};
  const auto write = [&](const auto& field) {
    const auto number = static_cast<std::int64_t>(from.*field.member);
    if (field.absent != number) schedule.fields.emplace_back(field.name, number);
  };
  std::apply([&](const auto&... fields) { (write(fields), ...); }, Struct::fields());
  return schedule;
}

// What each struct's schedule() gives.
template <typename Struct>
std::vector<Schedule> written(const std::vector<Struct>& structs) {
  std::vector<Schedule> schedules;
  for (const Struct& each : structs) schedules.push_back(each.schedule());
  return schedules;
}

}  // namespace anydim::ir
