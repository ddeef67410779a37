// What a tuning database says to the passes, as data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace anydim::ir {

// One row of a region's tuned table. Rows are tried in order; what no row contains goes to the
// general kernel.
struct TunedEntry {
  Bucket bucket;  // shapes that it serves
  Bucket kernel;  // shapes that its code is compiled for: contains `bucket`; rows with equal
                  // `kernel` and `schedule` share code
  Schedule schedule;
  double seconds = 0;     // expected over the shapes met in the bucket, one launch
  bool measured = false;  // false: predicted by the cost model
  bool operator==(const TunedEntry&) const = default;
};

// By Region::identity, for one device, precision and number of threads.
struct TuningTable {
  std::map<std::string, std::vector<TunedEntry>> regions;
};

}  // namespace anydim::ir
