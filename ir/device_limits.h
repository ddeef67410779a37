// What a device can do at most: how fast it multiplies and adds, and how fast it reads memory.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace anydim::ir {

struct DeviceLimits {
  // Multiply-adds a second, everything together; 0: not known. narrow: operands of 16 bits with f32
  // sums.
  double multiply_adds = 0, narrow_multiply_adds = 0;
  // Bytes read a second where so many bytes are read over and over, by ascending bytes; the rate
  // never rises.
  std::vector<std::pair<double, double>> reads{};

  // The rate at the least listed size that is not below `bytes`; beyond the greatest, the
  // greatest's. 0: not known.
  double read_rate(double bytes) const {
    if (reads.empty()) return 0;
    const auto at =
        std::ranges::find_if(reads, [&](const auto& probe) { return probe.first >= bytes; });
    return at == reads.end() ? reads.back().second : at->second;
  }
};

}  // namespace anydim::ir
