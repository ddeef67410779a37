#include "api/schedule_choice.h"

#include <algorithm>

namespace anydim {

bool ScheduleFilter::matches(const ir::Schedule& schedule) const {
  return schedule.name == wanted.name &&
         std::ranges::all_of(wanted.fields, [&](const auto& field) { return schedule.find(field.first) == field.second; });
}

ScheduleFilter parse_schedule_filter(std::string_view text) { return {ir::parse_schedule(text)}; }

ChosenSchedules::ChosenSchedules(std::shared_ptr<const ir::Backend> inner, std::optional<ScheduleFilter> filter)
    : ForwardingBackend(std::move(inner)), filter_(std::move(filter)) {}

bool ChosenSchedules::met() const {
  const std::lock_guard lock(mutex_);
  return met_;
}

std::vector<std::pair<double, ir::Schedule>> ChosenSchedules::ranked(std::string_view skeleton,
                                                                     const std::vector<std::int64_t>& keys) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<double, ir::Schedule>> ranked;
  for (const Offer& offer : offers_) {
    if (offer.region.keys.size() != keys.size() || offer.schedules.empty() || !offer.schedules[0].name.starts_with(skeleton)) continue;
    for (const ir::Schedule& schedule : offer.schedules) {
      if (std::ranges::any_of(ranked, [&](const auto& known) { return known.second == schedule; })) continue;
      ranked.emplace_back(inner().estimate(offer.region, schedule, keys, 1), schedule);
    }
  }
  std::ranges::sort(ranked, {}, [](const auto& entry) { return std::pair(entry.first, to_string(entry.second)); });
  return ranked;
}

std::vector<ir::Schedule> ChosenSchedules::candidates(const ir::Region& region, const ir::Bucket& bucket) const {
  std::vector<ir::Schedule> offered = inner().candidates(region, bucket);
  const std::lock_guard lock(mutex_);
  offers_.push_back({region, offered});
  if (!filter_) return offered;
  std::vector<ir::Schedule> taken;
  std::ranges::copy_if(offered, std::back_inserter(taken), [&](const ir::Schedule& schedule) { return filter_->matches(schedule); });
  if (taken.empty()) return offered;
  met_ = true;
  return taken;
}

std::vector<ir::Schedule> ChosenSchedules::space(const ir::Region& region, const ir::Bucket& bucket) const {
  return ir::space_of(inner(), region, bucket);
}

}  // namespace anydim
