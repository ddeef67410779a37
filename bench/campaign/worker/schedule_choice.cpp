#include "bench/campaign/worker/schedule_choice.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <set>
#include <string>

#include "ir/error.h"

namespace anydim::campaign {

bool ScheduleFilter::matches(const ir::Schedule& schedule) const {
  return schedule.name == wanted.name &&
         std::ranges::all_of(
             wanted.fields,
             [&](const auto& field) { return schedule.find(field.first) == field.second; }) &&
         std::ranges::all_of(above, [&](const auto& field) {
           const auto value = schedule.find(field.first);
           return value && *value > field.second;
         });
}

ScheduleFilter parse_schedule_filter(std::string_view text) {
  // A schedule's own text, but for the sign.
  std::string equal, above;
  for (const auto word : std::views::split(text, ' ')) {
    std::string part(word.begin(), word.end());
    const std::size_t sign = part.find('>');
    std::string& side = sign == std::string::npos ? equal : above;
    if (sign != std::string::npos) part[sign] = '=';
    side += " " + part;
  }
  return {ir::parse_schedule(equal), ir::parse_schedule("above" + above).fields};
}

ChosenSchedules::ChosenSchedules(std::shared_ptr<const ir::Backend> inner,
                                 std::optional<ScheduleFilter> filter,
                                 std::vector<ScheduleFilter> avoided)
    : ForwardingBackend(std::move(inner)), filter_(std::move(filter)),
      avoided_(std::move(avoided)) {}

bool ChosenSchedules::met() const {
  const std::lock_guard lock(mutex_);
  return met_;
}

std::vector<std::pair<double, ir::Schedule>> ChosenSchedules::ranked(
    std::string_view kind, const std::vector<std::int64_t>& keys) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<double, ir::Schedule>> ranked;
  std::set<std::string> known;
  for (const Offer& offer : offers_) {
    if (offer.region.keys.size() != keys.size() || offer.schedules.empty() ||
        !offer.schedules[0].name.starts_with(kind))
      continue;
    for (const ir::Schedule& schedule : offer.schedules) {
      if (!known.insert(to_string(schedule)).second) continue;
      ranked.emplace_back(inner().estimate(offer.region, schedule, keys, 1), schedule);
    }
  }
  std::ranges::sort(ranked, {}, [](const auto& entry) {
    return std::pair(entry.first, to_string(entry.second));
  });
  return ranked;
}

std::vector<ir::Schedule> ChosenSchedules::allowed(std::vector<ir::Schedule> schedules) const {
  std::erase_if(schedules, [&](const ir::Schedule& schedule) {
    return std::ranges::any_of(
        avoided_, [&](const ScheduleFilter& filter) { return filter.matches(schedule); });
  });
  return schedules;
}

std::vector<ir::Schedule> ChosenSchedules::candidates(const ir::Region& region,
                                                      const ir::Bucket& bucket) const {
  // What would be left of the few that the cost model chooses among may be nothing, or not the best
  // of the rest.
  const std::vector<ir::Schedule> offered =
      avoided_.empty() ? inner().candidates(region, bucket) : space(region, bucket);
  std::vector<ir::Schedule> taken;
  if (filter_)
    std::ranges::copy_if(space(region, bucket), std::back_inserter(taken),
                         [&](const auto& schedule) { return filter_->matches(schedule); });
  if (offered.empty())
    throw Error(ErrorKind::Unsupported, "every schedule that the region {} has is to be avoided",
                region.name);
  const std::lock_guard lock(mutex_);
  offers_.push_back({region, offered});
  if (taken.empty()) return offered;
  met_ = true;
  return taken;
}

std::vector<ir::Schedule> ChosenSchedules::space(const ir::Region& region,
                                                 const ir::Bucket& bucket) const {
  return allowed(inner().space(region, bucket));
}

}  // namespace anydim::campaign
