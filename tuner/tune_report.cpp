#include "tuner/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace anydim::tuner {

namespace {

ReportRegion region_report(const ir::Region& region, const RegionLatencies& latencies,
                           const RegionChoice& choice) {
  ReportRegion report{.name = region.name,
                      .axis = region.keys.empty() ? "" : region.keys[0].to_string(),
                      .curves = {},
                      .edges = {},
                      .entries = {}};
  for (const std::size_t kept : choice.candidates) {
    ReportCurve curve{.name = to_string(latencies.candidates[kept].schedule), .points = {}};
    for (std::size_t p = 0; p < latencies.points.size(); ++p) {
      const double seconds = latencies.seconds[kept][p];
      if (!latencies.points[p].empty() && std::isfinite(seconds))
        curve.points.emplace_back(static_cast<double>(latencies.points[p][0]), seconds);
    }
    std::ranges::sort(curve.points);
    report.curves.push_back(std::move(curve));
  }
  std::set<std::int64_t> edges;
  for (const ir::TunedEntry& entry : choice.entries) {
    report.entries.push_back(
        fmt::format("{}: {}", to_string(entry.bucket), to_string(entry.schedule)));
    if (!entry.bucket.intervals.empty() &&
        entry.bucket.intervals[0].low > latencies.range.intervals[0].low)
      edges.insert(entry.bucket.intervals[0].low);
  }
  report.edges.assign(edges.begin(), edges.end());
  return report;
}

}  // namespace

Report report_of(const TuneSubject& subject, const TuneResult& result) {
  Report report{.model = subject.model,
                .device = fmt::format("{}, {} threads, {}", subject.environment.device,
                                      subject.environment.threads, subject.environment.precision),
                .distribution = result.run.distribution};
  const auto milliseconds = [](double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); };
  report.facts = {
      {"kernels", fmt::format("{} of at most {}", result.run.kernels, result.run.most_kernels)},
      {"candidates tried", fmt::format("{} of {}", result.trials + result.reused, result.space)},
      {"a call is expected to take", milliseconds(result.run.expected_seconds)},
      {"by the cost model alone", milliseconds(result.run.default_seconds)},
      {"at least, with so many kernels", milliseconds(result.run.lower_bound_seconds)}};
  for (const auto& [outcome, count] : result.failures)
    report.facts.emplace_back(fmt::format("candidates that were {}", name_of(outcome)),
                              std::to_string(count));
  if (result.regret) report.regret = *result.regret;
  std::vector<std::int64_t> counts;
  const auto fewest = static_cast<std::int64_t>(result.latencies.size());
  for (std::int64_t count = fewest; count <= std::max(result.run.most_kernels, fewest);
       count += std::max<std::int64_t>(1, (result.run.most_kernels - fewest) / 8))
    counts.push_back(count);
  report.latency_over_kernels = curves_over_kernels(result.refined, counts);
  for (std::size_t i = 0; i < result.latencies.size(); ++i) {
    const ir::Region& region =
        subject.program.kernels.at(static_cast<std::size_t>(result.kernels[i])).region;
    report.regions.push_back(
        region_report(region, result.latencies[i], result.partition.regions[i]));
  }
  return report;
}

std::string report_text(const TuneResult& result, const std::string& fingerprint) {
  nlohmann::ordered_json report = {
      {"fingerprint", fingerprint}, {"space", result.space}, {"reused", result.reused}};
  if (result.regret) {
    report["best_seconds"] = result.regret->best_seconds;
    const auto shown = [](const Regret& regret) {
      return nlohmann::ordered_json{{"expected_total", regret.expected_total},
                                    {"mean", regret.mean},
                                    {"percentile_99", regret.percentile_99}};
    };
    for (const StrategyRegret& one : result.regret->strategies) {
      nlohmann::ordered_json row = shown(one.regret);
      row["name"] = one.name;
      row["kernels"] = one.kernels;
      row["expected_seconds"] = one.expected_seconds;
      report["strategies"].push_back(std::move(row));
    }
    report["noise"] = shown(result.regret->noise);
    report["share"] = result.regret_share;
  }
  return report.dump();
}

}  // namespace anydim::tuner
