// Devices that time nothing: a cost model's word, and latencies that were recorded elsewhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/tune.h"

namespace anydim::tuner {

// Each candidate at the cost model's estimate. Where the code generator's compiler is there,
// candidates are compiled: one that is refused, or that spills registers, is not taken. All outlive
// the device.
TuneDevice predicted_device(const TuneSubject& subject);

// latency[schedule][shape] in microseconds, as the GPU campaign writes it (bench/campaign): shapes
// of products are "MxNxK".
class RecordedMatrix {
 public:
  // The object itself, or one that holds it as "matrix". Throws Error{Malformed}; `where` names the
  // text.
  static RecordedMatrix parse(std::string_view json, const std::string& where);
  static RecordedMatrix read(const std::filesystem::path& file);  // throws Error{Malformed}

  std::vector<ir::Schedule> schedules() const;
  // Times step up with m: the least recorded m that is not below, or the greatest there is. Nothing
  // where the schedule was not recorded for n and k.
  std::optional<double> seconds(const ir::Schedule& schedule, std::int64_t m, std::int64_t n,
                                std::int64_t k) const;

 private:
  // By schedule, then (n, k), then m.
  std::map<std::string,
           std::map<std::pair<std::int64_t, std::int64_t>, std::map<std::int64_t, double>>>
      seconds_;
};

// Products of one varying extent at the recorded times; other regions, and schedules that were not
// recorded, are refused.
TuneDevice replayed_device(const TuneSubject& subject, const RecordedMatrix& matrix);

}  // namespace anydim::tuner
