#include "tuner/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tuner/html.h"
#include "tuner/plot.h"

namespace anydim::tuner {

namespace {

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }
std::string percent(double share, const Interval95& interval) {
  return fmt::format("{:.2f} [{:.2f}, {:.2f}] %", 100 * share, 100 * interval.low,
                     100 * interval.high);
}

std::string facts_table(const Report& report) {
  std::string text = "<table>\n";
  const auto row = [&](std::string_view name, std::string_view value) {
    text += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value));
  };
  row("model", report.model);
  row("device", report.device);
  row("distribution", report.distribution);
  for (const auto& [name, value] : report.facts) row(name, value);
  return text + "</table>\n";
}

std::string regret_table(const RegretReport& regret) {
  std::string text =
      "<table>\n<tr><th>way to serve the shapes</th><th>kernels</th><th>expected call</th><th>over "
      "the best, in total</th><th>mean over shapes</th><th>99th percentile of shapes</th></tr>\n";
  for (const StrategyRegret& one : regret.strategies) {
    text +=
        fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                    escaped(one.name), one.kernels, seconds_text(one.expected_seconds),
                    percent(one.regret.expected_total, one.regret.expected_total_interval),
                    percent(one.regret.mean),
                    percent(one.regret.percentile_99, one.regret.percentile_99_interval));
  }
  text += fmt::format(
      "<tr><td>noise: the best, timed "
      "again</td><td></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
      seconds_text(regret.best_seconds), percent(regret.noise.expected_total),
      percent(regret.noise.mean), percent(regret.noise.percentile_99));
  return text +
         fmt::format("</table>\n<p>In brackets: 95 % intervals over {} rounds of timing.</p>\n",
                     regret.rounds);
}

std::string worst_table(const RegretReport& regret) {
  if (regret.worst.empty()) return "";
  std::string text =
      "<h3>Shapes where the tables lose most</h3>\n<table>\n<tr><th>region at keys</th><th>over "
      "the best</th><th>share of launches</th><th>a launch</th><th>chosen</th><th>best</th></tr>\n";
  for (const WorstShape& one : regret.worst) {
    text += fmt::format(
        "<tr><td>{} ({})</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escaped(one.region), fmt::join(one.keys, ", "), percent(one.over_best), percent(one.share),
        seconds_text(one.seconds), escaped(to_string(one.chosen)), escaped(to_string(one.best)));
  }
  return text + "</table>\n";
}

std::string region_section(const ReportRegion& region) {
  double low = 0, high = 0;
  for (const ReportCurve& curve : region.curves) {
    for (const auto& [value, seconds] : curve.points) {
      low = low == 0 ? value : std::min(low, value);
      high = std::max(high, value);
    }
  }
  Plot plot{.title = "latency of " + region.name,
            .x_label = region.axis,
            .y_label = "one launch",
            .curves = region.curves};
  plot.edges.assign(region.edges.begin(), region.edges.end());
  plot.logarithmic = low > 0 && high / low > 16;
  std::string text = fmt::format("<h3>{}</h3>\n{}<pre>", escaped(region.name), to_svg(plot));
  for (const std::string& entry : region.entries) text += escaped(entry) + "\n";
  return text + "</pre>\n";
}

double expected(const Strategy& strategy, std::span<const FreshLatencies> times) {
  return regret(times, std::span(&strategy, 1)).strategies[0].expected_seconds;
}

}  // namespace

std::vector<ReportCurve> curves_over_kernels(std::span<const RegionLatencies> regions,
                                             std::span<const std::int64_t> counts) {
  std::vector<ReportCurve> curves{
      {"tuned", {}}, {"powers of two", {}}, {"uniform", {}}, {"one symbolic kernel", {}}};
  std::vector<FreshLatencies> times;
  for (const RegionLatencies& region : regions) times.push_back({region, {}});
  for (const std::int64_t count : counts) {
    if (count < static_cast<std::int64_t>(regions.size())) continue;
    const auto x = static_cast<double>(count);
    curves[0].points.emplace_back(x, choose_kernels(regions, count).expected_seconds);
    const std::vector<Strategy> usual = usual_strategies(regions, regions, count);
    for (std::size_t s = 1; s < curves.size(); ++s)
      curves[s].points.emplace_back(x, expected(usual[s - 1], times));
  }
  return curves;
}

std::string html_report(const Report& report) {
  std::string text = facts_table(report);
  text +=
      "<h2>What the tables lose</h2>\n<p>On shapes that were never measured before, against the "
      "fastest schedule of each.</p>\n" +
      regret_table(report.regret) + worst_table(report.regret);
  text += "<h2>Latency against the number of kernels</h2>\n" +
          to_svg({.title = "expected latency of a call",
                  .x_label = "kernels of the whole model",
                  .y_label = "expected call",
                  .curves = report.latency_over_kernels,
                  .from_zero = false});
  text += "<h2>Latency over the shapes</h2>\n<p>Dashed lines are the edges of the tables.</p>\n";
  for (const ReportRegion& region : report.regions) text += region_section(region);
  return html_page("Tuning of " + report.model, "", text);
}

}  // namespace anydim::tuner
