// From kept kernels to a dispatch table: boxes over the keys' values.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tuner/partition.h"

namespace anydim::tuner {

// What the kernel of a candidate is compiled for: the whole range, at multiples of the candidate's.
ir::Bucket kernel_bucket(const RegionLatencies& latencies, std::size_t candidate);
// Whether a point lies in that bucket.
bool serves(const RegionLatencies& latencies, std::size_t candidate, std::size_t point);
// Whether it serves every value of the keys, and has a time at every point.
bool is_general(const RegionLatencies& latencies, std::size_t candidate);

// A total table of at most `most_rows` rows: kernels for multiples come before kernels for any
// value, the last row is a general kernel over the whole range. Within a box the kernel with the
// least expected time over the points there serves; boxes are cut where that lowers the expected
// time most.
std::vector<ir::TunedEntry> build_table(const RegionLatencies& latencies,
                                        std::span<const std::size_t> kept, std::size_t most_rows);

}  // namespace anydim::tuner
