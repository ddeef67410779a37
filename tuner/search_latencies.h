// From a search to what tables of kernels are chosen by.
#pragma once

#include <vector>

#include "tuner/tune.h"

namespace anydim::tuner {

// What the search knows, as choose_kernels takes it: every region with those of its candidates that
// may be used. `noise`: the 95 % spread of A against A at each region's points, within which a
// challenger does not win. `measured`: false where times are predicted.
std::vector<RegionLatencies> latencies_of(const Search& search,
                                          const std::vector<RegionPoints>& points,
                                          const TuneSubject& subject,
                                          const std::vector<std::vector<double>>& noise,
                                          bool measured);

}  // namespace anydim::tuner
