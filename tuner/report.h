// The tuner's report: one self-contained HTML file with SVG plots that opens offline.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tuner/regret.h"

namespace anydim::tuner {

struct ReportCurve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // ascending by the first
};

// Latency over the first key of a region, with the edges of its table.
struct ReportRegion {
  std::string name;
  std::string axis;                 // what the first key is, e.g. "batch*seq"
  std::vector<ReportCurve> curves;  // value of the key, seconds
  std::vector<std::int64_t> edges;
  std::vector<std::string> entries;  // one text line a row of the table
};

struct Report {
  std::string model, device, distribution;
  std::vector<std::pair<std::string, std::string>> facts{};  // name, value
  RegretReport regret{};
  // number of kernels, expected seconds of a call; a curve a strategy
  std::vector<ReportCurve> latency_over_kernels{};
  std::vector<ReportRegion> regions{};
};

// Expected seconds of a call against the number of kernels, on the given times, of: tuned, powers
// of two, uniform, one symbolic kernel.
std::vector<ReportCurve> curves_over_kernels(std::span<const RegionLatencies> regions,
                                             std::span<const std::int64_t> counts);

// Opens offline: it refers to nothing outside of itself.
std::string html_report(const Report& report);

}  // namespace anydim::tuner
