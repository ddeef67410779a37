#include "tuner/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "tuner/ridge.h"
#include "tuner/statistics.h"

namespace anydim::tuner {
namespace {

TEST(Statistics, MediansAndTheirIntervals) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(i);
  // Order statistics 6 and 15 of 20 (Conover, Practical Nonparametric Statistics, table of binomial
  // intervals).
  EXPECT_EQ(median_interval(values).low, 6);
  EXPECT_EQ(median_interval(values).high, 15);
  EXPECT_EQ(median_interval({5, 1, 3}).low, 1);
  EXPECT_EQ(median_interval({5, 1, 3}).high, 5);
  const std::vector<double> a{2, 4, 9}, b{1, 2, 3};
  EXPECT_EQ(ratios(a, b), (std::vector<double>{2, 2, 3}));
}

TEST(Statistics, IntervalsCoverTheMedian) {
  std::mt19937 engine(3);
  std::exponential_distribution<double> noise(1);
  int covered = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 15; ++i) values.push_back(noise(engine));
    const Interval95 interval = median_interval(values);
    covered += interval.low <= std::log(2.0) && interval.high >= std::log(2.0) ? 1 : 0;
  }
  EXPECT_GE(covered, 940);
}

TEST(Ridge, FindsALine) {
  std::vector<std::vector<double>> rows;
  std::vector<double> values;
  for (double x = 0; x < 10; ++x)
    for (double y = 0; y < 3; ++y) {
      rows.push_back({1, x, y});
      values.push_back(4 + 2 * x - 3 * y);
    }
  const Ridge exact(rows, values, 1e-9);
  EXPECT_NEAR(exact.predict(std::vector<double>{1, 20, 5}), 4 + 40 - 15, 1e-4);
  // A heavy penalty leaves the mean alone.
  EXPECT_NEAR(Ridge(rows, values, 1e9).predict(std::vector<double>{1, 20, 5}), 4 + 9 - 3, 1e-3);
  EXPECT_EQ(Ridge({}, {}, 1).predict(std::vector<double>{1, 2}), 0);
}

// A region whose times follow from two fields; the estimates don't know the second.
SearchRegion region_of(double scale) {
  SearchRegion region{.candidates = {},
                      .points = {{16}, {256}},
                      .weights = {1, 1},
                      .estimates = {},
                      .incumbents = {0, 0}};
  for (std::int64_t a = 1; a <= 8; ++a) {
    for (std::int64_t b = 1; b <= 8; ++b) {
      region.candidates.push_back({.name = "s", .fields = {{"a", a}, {"b", b}}});
      region.estimates.push_back({scale * (1 + 0.1 * static_cast<double>(8 - a)),
                                  scale * (4 + 0.1 * static_cast<double>(8 - a))});
    }
  }
  return region;
}
double true_ratio(const ir::Schedule& schedule) {
  const auto a = static_cast<double>(schedule.field("a")),
             b = static_cast<double>(schedule.field("b"));
  return (1 - 0.02 * a) * (1 - 0.08 * std::log2(b));
}

std::size_t trials_to_best(bool refit, double& found) {
  Search search({region_of(1e-3), region_of(1e-6)},
                {.threshold = 0.001, .refit = refit, .fewest = 1});
  std::set<std::pair<std::size_t, std::size_t>> tried;
  const auto attempt = search.next();
  EXPECT_EQ(*attempt, (Attempt{0, 0}));  // incumbents first
  for (auto next = attempt; next; next = search.next()) {
    EXPECT_TRUE(tried.insert({next->region, next->candidate}).second) << "tried twice";
    const double ratio = true_ratio(search.regions()[next->region].candidates[next->candidate]) /
                         true_ratio(search.regions()[0].candidates[0]);
    const double seconds = next->region == 0 ? 1e-3 : 1e-6;
    search.record(*next, {ratio, ratio}, {seconds, 4 * seconds});
    if (search.trials() > 200) break;
  }
  found = search.best_seconds() / search.default_seconds();
  std::size_t second = 0;
  for (const auto& [region, candidate] : tried) second += region == 1 ? 1 : 0;
  // A thousandth of the time is not worth more than a look.
  EXPECT_LE(second, 3);
  return tried.size();
}

TEST(Search, LearnsWhatTheCostModelMisses) {
  double with = 0, without = 0;
  const std::size_t learned = trials_to_best(true, with), ranked = trials_to_best(false, without);
  EXPECT_LT(learned, 64);
  const double best = true_ratio({.name = "s", .fields = {{"a", 8}, {"b", 8}}}) /
                      true_ratio({.name = "s", .fields = {{"a", 1}, {"b", 1}}});
  EXPECT_LE(with, best * 1.02);
  EXPECT_LE(learned, ranked);
}

TEST(Search, FailedCandidatesAreNeverAskedForAgain) {
  Search search({region_of(1)}, {.fewest = 10});
  std::set<std::size_t> tried;
  for (auto next = search.next(); next; next = search.next()) {
    EXPECT_TRUE(tried.insert(next->candidate).second);
    const bool incumbent = next->candidate == 0;
    search.record(*next, incumbent ? std::vector<double>{1, 1} : std::vector<double>{},
                  incumbent ? std::vector<double>{1, 4} : std::vector<double>{});
  }
  EXPECT_EQ(search.best_seconds(), search.default_seconds());
  EXPECT_EQ(tried.size(), 64);
}

}  // namespace
}  // namespace anydim::tuner
