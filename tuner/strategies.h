// The usual ways to bucket shapes: what tuned tables are held against, and where the search for
// them starts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tuner/partition.h"

namespace anydim::tuner {

// One way to serve all shapes.
struct Strategy {
  std::string name;          // "tuned", "powers of two", "uniform", "one symbolic kernel", "exact
                             // specialisation", ...
  std::int64_t kernels = 0;  // distinct, over the model
  std::vector<std::vector<ir::TunedEntry>> tables;  // in the order of the regions
};

// The usual ways, chosen from the same measurements as the tuned table (`seen`), with at most
// `most_kernels` kernels except for exact specialisation (one for each region and point of
// `unseen`, free to take the best there). In bucketed ones each bucket is a kernel of its own, with
// the schedule that is best over the bucket.
std::vector<Strategy> usual_strategies(std::span<const RegionLatencies> seen,
                                       std::span<const RegionLatencies> unseen,
                                       std::int64_t most_kernels);

// Candidates that powers of two, and buckets of equal width, would keep of a region with at most
// `most` kernels.
std::vector<std::vector<std::size_t>> usual_choices(const RegionLatencies& latencies,
                                                    std::int64_t most);

// The candidate with the least time at a point.
std::size_t fastest(const std::vector<std::vector<double>>& seconds, std::size_t point);

}  // namespace anydim::tuner
