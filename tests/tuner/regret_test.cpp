// Regret by hand, the usual ways to bucket, and the page that shows both.
#include "tuner/regret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <set>

#include "ir/error.h"
#include "tuner/plot.h"
#include "tuner/report.h"

namespace anydim::tuner {
namespace {

// Two schedules whose times cross at 100: `small` costs a unit of size, `large` always 100.
RegionLatencies crossing(const std::vector<std::int64_t>& sizes) {
  RegionLatencies region{.region = "r",
                         .range = {{{1, 4096, 1}}},
                         .points = {},
                         .weights = {},
                         .candidates = {{{"small", {}}, {}}, {{"large", {}}, {}}},
                         .seconds = {{}, {}}};
  for (const std::int64_t size : sizes) {
    region.points.push_back({size});
    region.weights.push_back(1);
    region.seconds[0].push_back(static_cast<double>(size));
    region.seconds[1].push_back(100);
  }
  return region;
}

ir::TunedEntry row(std::int64_t low, std::int64_t high, const std::string& schedule) {
  const ir::Bucket bucket{{{low, high, 1}}};
  return {.bucket = bucket, .kernel = bucket, .schedule = {schedule, {}}};
}

TEST(Regret, IsWhatTheTablePaysOverTheBest) {
  // Switches to `large` too late: 150 pays 150 instead of 100.
  const std::vector<FreshLatencies> fresh{{crossing({50, 80, 150, 300}), {}}};
  const std::vector<Strategy> strategies{
      {"late", 2, {{row(1, 200, "small"), row(1, 4096, "large")}}}};
  const RegretReport report = regret(fresh, strategies);
  EXPECT_DOUBLE_EQ(report.best_seconds, 50 + 80 + 100 + 100);
  EXPECT_DOUBLE_EQ(report.strategies[0].expected_seconds, 380);
  EXPECT_NEAR(report.strategies[0].regret.expected_total, 50.0 / 330, 1e-12);
  EXPECT_NEAR(report.strategies[0].regret.mean, 0.5 / 4, 1e-12);
  EXPECT_NEAR(report.strategies[0].regret.percentile_99, 0.5, 1e-12);
}

TEST(Regret, PercentileCountsShapesByTheirWeight) {
  std::vector<FreshLatencies> fresh{{crossing({50, 150}), {}}};
  fresh[0].latencies.weights = {995, 5};
  const std::vector<Strategy> strategies{{"always small", 1, {{row(1, 4096, "small")}}}};
  EXPECT_DOUBLE_EQ(regret(fresh, strategies).strategies[0].regret.percentile_99, 0);
  fresh[0].latencies.weights = {980, 20};
  EXPECT_NEAR(regret(fresh, strategies).strategies[0].regret.percentile_99, 0.5, 1e-12);
}

TEST(Regret, TheNoiseFloorIsTheBestTimedAgain) {
  std::vector<FreshLatencies> fresh{{crossing({50, 400}), {}}};
  fresh[0].again = {{{55, 400}, {100, 104}}};
  const RegretReport report = regret(fresh, {});
  EXPECT_NEAR(report.noise.expected_total, 9.0 / 150, 1e-12);
  EXPECT_NEAR(report.noise.mean, (0.1 + 0.04) / 2, 1e-12);
  EXPECT_NEAR(report.noise.percentile_99, 0.1, 1e-12);
}

TEST(Regret, LuckCountsForNobody) {
  // Both always take 100; each is lucky once.
  std::vector<FreshLatencies> fresh{{crossing({100}), {}}};
  fresh[0].latencies.seconds = {{90}, {110}};
  fresh[0].again = {{{110}, {90}}};
  const RegretReport report =
      regret(fresh, std::vector<Strategy>{{"tuned", 1, {{row(1, 4096, "small")}}}});
  EXPECT_DOUBLE_EQ(report.best_seconds, 110);
  EXPECT_DOUBLE_EQ(report.strategies[0].expected_seconds, 100);
  // A schedule that is better both times is the best by both.
  fresh[0].latencies.seconds = {{90}, {110}};
  fresh[0].again = {{{92}, {112}}};
  EXPECT_NEAR(regret(fresh, std::vector<Strategy>{{"tuned", 1, {{row(1, 4096, "large")}}}})
                  .strategies[0]
                  .regret.expected_total,
              20.0 / 91, 1e-12);
}

// Rounds of timing in which both schedules scatter: `small` around 100, `large` around `large` at
// one point.
FreshLatencies noisy(double large, int rounds, double scatter, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const auto noise = [&] { return 1 + scatter * normal(random); };
  FreshLatencies fresh{crossing({100}), {}};
  for (int round = 0; round < rounds; ++round) {
    const std::vector<std::vector<double>> seconds{{100 * noise()}, {large * noise()}};
    if (round == 0) fresh.latencies.seconds = seconds;
    else fresh.again.push_back(seconds);
  }
  return fresh;
}

TEST(Regret, MoreRoundsNarrowItsInterval) {
  const std::vector<Strategy> strategies{{"tuned", 1, {{row(1, 4096, "large")}}},
                                         {"other", 1, {{row(1, 4096, "small")}}}};
  int covered = 0;
  double wide = 0, narrow = 0;
  constexpr int cases = 40;
  for (std::uint32_t seed = 0; seed < cases; ++seed) {
    const RegretReport few = regret(std::vector{noisy(110, 2, 0.02, seed)}, strategies);
    const RegretReport many = regret(std::vector{noisy(110, 12, 0.02, seed)}, strategies);
    EXPECT_EQ(few.rounds, 2);
    EXPECT_EQ(many.rounds, 12);
    const Interval95& interval = many.strategies[0].regret.percentile_99_interval;
    EXPECT_LE(interval.low, many.strategies[0].regret.percentile_99);
    EXPECT_GE(interval.high, many.strategies[0].regret.percentile_99);
    if (interval.low <= 0.1 && interval.high >= 0.1) ++covered;
    narrow += interval.high - interval.low;
    wide += std::abs(few.strategies[0].regret.percentile_99 - 0.1);
    EXPECT_NEAR(many.strategies[0].regret.percentile_99, 0.1, 0.035);
    // The other strategy is held against the first one by the same rounds.
    EXPECT_LE(many.strategies[1].over_first.low, 1 / 1.1 + 0.02);
    EXPECT_GE(many.strategies[1].over_first.high, 1 / 1.1 - 0.02);
    EXPECT_DOUBLE_EQ(many.strategies[0].over_first.low, 1);
  }
  EXPECT_GE(covered, cases * 3 / 4) << "medians of six rounds";
  EXPECT_LT(narrow / cases, 0.06);
  EXPECT_GT(wide / cases, 0.005);
}

TEST(Regret, OneBadRoundChangesLittle) {
  std::vector<FreshLatencies> fresh{noisy(100.5, 6, 0, 1)};
  fresh[0].again[2] = {{100}, {500}};
  const Regret regretted =
      regret(fresh, std::vector<Strategy>{{"tuned", 1, {{row(1, 4096, "large")}}}})
          .strategies[0]
          .regret;
  EXPECT_NEAR(regretted.percentile_99, 0.005, 1e-9);
}

TEST(Regret, TheWorstShapesComeFirst) {
  const std::vector<FreshLatencies> fresh{{crossing({50, 150, 300}), {}}};
  const RegretReport report =
      regret(fresh, std::vector<Strategy>{{"tuned", 1, {{row(1, 4096, "small")}}}});
  ASSERT_EQ(report.worst.size(), 3u);
  EXPECT_EQ(report.worst[0].keys, std::vector<std::int64_t>{300});
  EXPECT_EQ(to_string(report.worst[0].chosen), "small");
  EXPECT_EQ(to_string(report.worst[0].best), "large");
  EXPECT_DOUBLE_EQ(report.worst[0].over_best, 2);
  EXPECT_DOUBLE_EQ(report.worst[0].seconds, 300);
  EXPECT_NEAR(report.worst[0].share, 1.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(report.worst[2].over_best, 0);
}

TEST(Regret, AScheduleWithoutAFreshTimeIsSaid) {
  std::vector<FreshLatencies> fresh{{crossing({50}), {}}};
  try {
    regret(fresh, std::vector<Strategy>{{"tuned", 1, {{row(1, 4096, "other")}}}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Inputs);
    EXPECT_STREQ(error.what(),
                 "the table of `tuned` picks `other` for a shape at which it was not timed afresh");
  }
}

std::vector<std::int64_t> every(std::int64_t step, std::int64_t most) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = step; size <= most; size += step) sizes.push_back(size);
  return sizes;
}

TEST(UsualStrategies, PowersOfTwoAndUniformKeepWithinTheBudget) {
  const std::vector seen{crossing(every(10, 1000))};
  const auto strategies = usual_strategies(seen, std::vector{crossing({15, 500})}, 8);
  ASSERT_EQ(strategies.size(), 4u);
  EXPECT_EQ(strategies[0].name, "powers of two");
  EXPECT_EQ(strategies[0].kernels, 7);
  EXPECT_EQ(to_string(strategies[0].tables[0][0].bucket), "[1, 15]");
  EXPECT_EQ(to_string(strategies[0].tables[0][3].bucket), "[64, 127]");
  EXPECT_EQ(strategies[1].name, "uniform");
  EXPECT_EQ(strategies[1].kernels, 8);
  EXPECT_EQ(strategies[2].name, "one symbolic kernel");
  EXPECT_EQ(strategies[2].kernels, 1);
  EXPECT_EQ(to_string(strategies[2].tables[0][0].schedule), "large");
  EXPECT_EQ(strategies[3].name, "exact specialisation");
  EXPECT_EQ(strategies[3].kernels, 2);
  EXPECT_EQ(to_string(strategies[3].tables[0][0].bucket), "[15, 15] multiple 15");
  // Fewer kernels: coarser powers, fewer widths.
  const auto fewer = usual_strategies(seen, std::vector{crossing({15})}, 3);
  EXPECT_LE(fewer[0].kernels, 3);
  EXPECT_EQ(fewer[1].kernels, 3);
}

// Random matrices over one or two keys: whatever K is, nobody's buckets beat the table on what was
// measured.
TEST(UsualStrategies, NeverBeatTheTunedTableOnWhatWasMeasured) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> noise(0.7, 1.4);
  for (int turn = 0; turn < 60; ++turn) {
    std::vector<RegionLatencies> seen;
    const std::size_t regions = 1 + random() % 3;
    for (std::size_t r = 0; r < regions; ++r) {
      RegionLatencies& region = seen.emplace_back(RegionLatencies{.region = "r" + std::to_string(r),
                                                                  .range = {{{1, 4096, 1}}},
                                                                  .points = {},
                                                                  .weights = {},
                                                                  .candidates = {},
                                                                  .seconds = {}});
      const bool two_keys = random() % 3 == 0;
      if (two_keys) region.range.intervals.push_back({1, 64, 1});
      std::set<std::vector<std::int64_t>> points;
      while (points.size() < 6) {
        std::vector<std::int64_t> point{1 + static_cast<std::int64_t>(random() % 4096)};
        if (two_keys) point.push_back(1 + static_cast<std::int64_t>(random() % 64));
        points.insert(point);
      }
      region.points.assign(points.begin(), points.end());
      for (std::size_t c = 0, count = 2 + random() % 12; c < count; ++c) {
        region.candidates.push_back({{"s" + std::to_string(c), {}}, {}});
        region.seconds.emplace_back();
        for (const auto& point : region.points)
          region.seconds.back().push_back(noise(random) * std::sqrt(static_cast<double>(point[0])));
      }
      for (std::size_t p = 0; p < region.points.size(); ++p)
        region.weights.push_back(noise(random));
    }
    for (const std::int64_t more : {0, 1, 3, 8}) {
      const std::int64_t most = static_cast<std::int64_t>(regions) + more;
      const auto curves = curves_over_kernels(seen, std::span(&most, 1));
      for (std::size_t s = 1; s < curves.size(); ++s)
        EXPECT_LE(curves[0].points[0].second, curves[s].points[0].second * (1 + 1e-9))
            << curves[s].name << " with " << most << ", turn " << turn;
    }
  }
}

TEST(UsualStrategies, TheTunedTableIsNoWorseWithAsManyKernels) {
  const std::vector seen{crossing(every(10, 1000)), crossing(every(7, 300))};
  const std::vector<std::int64_t> counts{2, 3, 4, 8, 16};
  const std::vector<ReportCurve> curves = curves_over_kernels(seen, counts);
  ASSERT_EQ(curves[0].points.size(), counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i)
    for (std::size_t s = 1; s < curves.size(); ++s)
      EXPECT_LE(curves[0].points[i].second, curves[s].points[i].second + 1e-9) << curves[s].name;
}

Report example_report() {
  const std::vector seen{crossing(every(10, 1000))};
  const std::vector<FreshLatencies> fresh{{seen[0], {seen[0].seconds}}};
  const Partition partition = choose_kernels(seen, 2);
  std::vector<Strategy> strategies{{"tuned", 2, {partition.regions[0].entries}}};
  for (Strategy& strategy : usual_strategies(seen, seen, 2))
    strategies.push_back(std::move(strategy));
  Report report{.model = "a <model> & more",
                .device = "processor",
                .distribution = "uniform(1, 1000)",
                .facts = {{"trials", "12"}}};
  report.regret = regret(fresh, strategies);
  report.latency_over_kernels = curves_over_kernels(seen, std::vector<std::int64_t>{1, 2, 4, 8});
  ReportRegion& region =
      report.regions.emplace_back(ReportRegion{"matmul_0",
                                               "rows",
                                               {{"small", {}}, {"large", {}}},
                                               {100},
                                               {"[1, 99] small", "[1, 4096] large"}});
  for (std::size_t p = 0; p < seen[0].points.size(); ++p)
    for (std::size_t c = 0; c < 2; ++c)
      region.curves[c].points.emplace_back(seen[0].points[p][0], 1e-6 * seen[0].seconds[c][p]);
  return report;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(HtmlReport, HoldsEverythingAndRefersToNothing) {
  const std::string page = html_report(example_report());
  EXPECT_EQ(count(page, "<svg "), 2u);
  EXPECT_EQ(count(page, "</svg>"), 2u);
  EXPECT_EQ(count(page, "class=\"edge\""), 1u);
  EXPECT_EQ(count(page, "class=\"curve\""), 6u);
  EXPECT_NE(page.find("a &lt;model&gt; &amp; more"), std::string::npos);
  EXPECT_EQ(page.find("<model>"), std::string::npos);
  EXPECT_EQ(count(page, "://"), count(page, "http://www.w3.org/2000/svg"));
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  for (const char* name : {"tuned", "powers of two", "uniform", "one symbolic kernel",
                           "exact specialisation", "noise: the best, timed again"})
    EXPECT_NE(page.find(name), std::string::npos) << name;
  if (const char* file = std::getenv("ANYDIM_REPORT_FILE")) std::ofstream(file) << page;
}

TEST(HtmlReport, APlotOfNothingSaysSo) {
  const std::string svg =
      to_svg({.title = "t", .x_label = "x", .y_label = "y", .curves = {{"c", {{1, INFINITY}}}}});
  EXPECT_NE(svg.find("nothing was measured"), std::string::npos);
  EXPECT_EQ(
      count(to_svg({.title = "t", .x_label = "x", .y_label = "y", .curves = {{"c", {{5, 1e-3}}}}}),
            "<circle"),
      1u);
}

TEST(HtmlReport, TimesReadWell) {
  EXPECT_EQ(seconds_text(0), "0");
  EXPECT_EQ(seconds_text(1.5e-8), "15 ns");
  EXPECT_EQ(seconds_text(2.5e-6), "2.5 us");
  EXPECT_EQ(seconds_text(1.25e-2), "12.5 ms");
  EXPECT_EQ(seconds_text(3), "3 s");
}

}  // namespace
}  // namespace anydim::tuner
