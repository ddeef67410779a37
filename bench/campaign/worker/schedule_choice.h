// A code generator that is told which schedules to use: for measuring and for trying one out.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/forwarding_backend.h"

namespace anydim::campaign {

// What a schedule must be: its name, fields that it must have with these values, and fields that it
// must have above these; the rest is free. "matmul_wgmma persistent=1 split>1".
struct ScheduleFilter {
  ir::Schedule wanted;
  std::vector<std::pair<std::string, std::int64_t>> above{};
  bool matches(const ir::Schedule& schedule) const;
};
ScheduleFilter parse_schedule_filter(std::string_view text);  // throws Error{Malformed}

// Offers what `inner` does, less what one of `avoided` takes; of a region where `filter` takes
// anything of what is left, nothing else. Remembers what was on offer. Throws Error{Unsupported}
// where all that a region has is avoided. Any thread.
class ChosenSchedules : public ir::ForwardingBackend {
 public:
  ChosenSchedules(std::shared_ptr<const ir::Backend> inner, std::optional<ScheduleFilter> filter,
                  std::vector<ScheduleFilter> avoided = {});

  // A region had a schedule that the filter takes.
  bool met() const;
  // Estimated seconds, ascending, at values of the bucket keys, of every schedule on offer for the
  // first region that has as many keys and whose schedules' names begin with `kernel kind`.
  std::vector<std::pair<double, ir::Schedule>> ranked(std::string_view kind,
                                                      const std::vector<std::int64_t>& keys) const;

  std::vector<ir::Schedule> candidates(const ir::Region& region,
                                       const ir::Bucket& bucket) const override;
  std::vector<ir::Schedule> space(const ir::Region& region,
                                  const ir::Bucket& bucket) const override;
  LibraryChoice library_schedule(const ir::Region&) const override {
    return {std::nullopt, "its schedule is told"};
  }

 private:
  // without the avoided ones
  std::vector<ir::Schedule> allowed(std::vector<ir::Schedule> schedules) const;

  struct Offer {
    ir::Region region;
    std::vector<ir::Schedule> schedules;
  };
  std::optional<ScheduleFilter> filter_;
  std::vector<ScheduleFilter> avoided_;
  mutable std::mutex mutex_;
  mutable std::vector<Offer> offers_;
  mutable bool met_ = false;
};

}  // namespace anydim::campaign
