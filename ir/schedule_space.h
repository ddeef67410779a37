// What a backend may offer to a search by measurement.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/backend.h"

namespace anydim::ir {

// A backend that is one too tells more schedules than its cost model would choose among.
class ScheduleSpace {
 public:
  virtual ~ScheduleSpace() = default;
  // Every schedule that makes a right kernel for the bucket: those of Backend::candidates first, then what the cost model leaves out. What is not in it must not be
  // compiled for the bucket.
  virtual std::vector<Schedule> space(const Region& region, const Bucket& bucket) const = 0;
};

// The backend's space; its candidates where it offers no more.
inline std::vector<Schedule> space_of(const Backend& backend, const Region& region, const Bucket& bucket) {
  const auto* offers = dynamic_cast<const ScheduleSpace*>(&backend);
  return offers != nullptr ? offers->space(region, bucket) : backend.candidates(region, bucket);
}

// A space as ScheduleSpace::space gives it: `candidates`, then those of `wider` that are not there yet.
inline std::vector<Schedule> joined(std::vector<Schedule> candidates, std::vector<Schedule> wider) {
  std::set<std::string> known;
  for (const Schedule& schedule : candidates) known.insert(to_string(schedule));
  for (Schedule& schedule : wider)
    if (known.insert(to_string(schedule)).second) candidates.push_back(std::move(schedule));
  return candidates;
}

}  // namespace anydim::ir
