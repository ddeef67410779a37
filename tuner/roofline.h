// The least time that a processor's arithmetic and memory allow a launch: the roofline that the
// tuner holds its times against.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/module.h"
#include "tuner/device_limits.h"

namespace anydim::tuner {

// What any kernel of a region has to do at these values of its symbols (in the order of its symbol
// table).
struct LeastWork {
  double multiply_adds = 0;  // of products and attention; other arithmetic is not counted
  bool narrow = false;       // both operands are of 16 bits
  double bytes = 0;  // every parameter and result once; of a parameter no more elements than there
                     // are points of the iteration space
};
// `segment_offsets`: what the region's parameter of that meaning holds, where it works on rows laid
// end to end; without it their products are not counted. The region has a loop form.
LeastWork least_work(const ir::Region& region, std::span<const std::int64_t> extents,
                     std::span<const std::int64_t> segment_offsets = {});

// Arithmetic or memory, whichever takes longer, as if data lay in the fastest cache that holds all
// of it. 0: not known.
double roofline_seconds(const LeastWork& work, const DeviceLimits& limits);

// The values of dims over a region's symbols.
std::vector<std::int64_t> dims_at(const ir::Region& region, const std::vector<ir::Dim>& dims,
                                  std::span<const std::int64_t> extents);

}  // namespace anydim::tuner
