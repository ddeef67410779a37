#include "tuner/search_latencies.h"

#include <algorithm>

#include "tuner/observed.h"
#include "tuner/tolerance.h"

namespace anydim::tuner {

std::vector<RegionLatencies> latencies_of(const Search& search,
                                          const std::vector<RegionPoints>& points,
                                          const TuneSubject& subject,
                                          const std::vector<std::vector<double>>& noise,
                                          bool measured) {
  std::vector<RegionLatencies> all;
  for (std::size_t r = 0; r < points.size(); ++r) {
    const SearchRegion& searched = search.regions()[r];
    const ir::Region& region = kernel_of(subject, points[r].kernel).region;
    RegionLatencies one{.region = region.identity,
                        .range = whole_range(region),
                        .points = searched.points,
                        .weights = searched.weights,
                        .candidates = {},
                        .seconds = {},
                        .edges = subject.backend.key_edges(region)};
    bool none = true;
    for (std::size_t c = 0; c < searched.candidates.size(); ++c)
      none = none && search.ratios({r, c}).empty();
    for (std::size_t c = 0; c < searched.candidates.size(); ++c) {
      const std::vector<double>& ratios = search.ratios({r, c});
      const bool incumbent = std::ranges::find(searched.incumbents, c) != searched.incumbents.end();
      // Where a region has no time at all its incumbents are there by their estimates.
      if (ratios.empty() && !(none && incumbent)) continue;
      one.candidates.push_back({.schedule = searched.candidates[c]});
      std::vector<double>& seconds = one.seconds.emplace_back();
      for (std::size_t p = 0; p < searched.points.size(); ++p) {
        double ratio = ratios.empty() ? search.predicted_ratio({r, c}, p) : ratios[p];
        const std::vector<double>& incumbents = search.ratios({r, searched.incumbents[p]});
        const double own = incumbents.empty() ? 1 : incumbents[p];
        // A challenger wins only beyond the spread of A against A.
        constexpr double barely = 1e-4;
        if (searched.incumbents[p] != c && ratio < own && ratio > own - noise[r][p])
          ratio = own + barely;
        seconds.push_back(ratio * search.incumbent_seconds(r, p));
      }
      one.measured.emplace_back(searched.points.size(), measured && !ratios.empty());
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace anydim::tuner
