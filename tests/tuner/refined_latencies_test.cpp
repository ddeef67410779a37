// Times at sizes between those that were measured, and the edges that come of them.
#include "tuner/refined_latencies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace anydim::tuner {
namespace {

// Two schedules at sizes 4 and 64: `steps` is the faster at 4, `even` at 64.
RegionLatencies two_points() {
  return {.region = "r",
          .range = {{{1, 1000, 1}}},
          .points = {{4}, {64}},
          .weights = {1, 1},
          .candidates = {{{"steps", {}}, {}}, {{"even", {}}, {}}},
          .seconds = {{10e-6, 200e-6}, {15e-6, 100e-6}},
          .measured = {{true, true}, {true, true}}};
}

KeyWeights sizes_upto(std::int64_t most) {
  KeyWeights sizes;
  for (std::int64_t size = 4; size <= most; ++size)
    sizes.keys.push_back({size}), sizes.weights.push_back(1);
  return sizes;
}

double of_size(std::span<const std::int64_t> keys) { return static_cast<double>(keys[0]); }

TEST(RefinedLatencies, MeasuredPointsStay) {
  const RegionLatencies fine =
      refine(two_points(), sizes_upto(64), [](std::size_t, auto keys) { return of_size(keys); });
  ASSERT_EQ(fine.points.size(), 61u);
  EXPECT_DOUBLE_EQ(fine.seconds[0].front(), 10e-6);
  EXPECT_DOUBLE_EQ(fine.seconds[1].back(), 100e-6);
  EXPECT_EQ(std::accumulate(fine.measured[0].begin(), fine.measured[0].end(), 0), 2);
  EXPECT_TRUE(fine.measured[1].front());
  EXPECT_DOUBLE_EQ(std::accumulate(fine.weights.begin(), fine.weights.end(), 0.0), 61);
}

TEST(RefinedLatencies, AModelWithoutStepsOfItsOwnLeavesTheLine) {
  const RegionLatencies fine =
      refine(two_points(), sizes_upto(64), [](std::size_t, auto) { return 1.0; });
  for (std::size_t p = 1; p + 1 < fine.points.size(); ++p) {
    const double share =
        (std::log1p(of_size(fine.points[p])) - std::log(5.0)) / (std::log(65.0) - std::log(5.0));
    EXPECT_NEAR(fine.seconds[0][p], 10e-6 * std::pow(20.0, share), 1e-12);
    EXPECT_NEAR(fine.seconds[1][p], 15e-6 * std::pow(100.0 / 15, share), 1e-12);
  }
}

// What all candidates share moves all of them; a stray within the model's error moves nobody.
TEST(RefinedLatencies, ALittleMoreThanOthersIsNotBelieved) {
  const auto flat = refine(two_points(), sizes_upto(64), [](std::size_t, auto) { return 1.0; });
  const auto little = refine(two_points(), sizes_upto(64), [](std::size_t candidate, auto keys) {
    return candidate == 0 && keys[0] == 20 ? 1.04 : 1.0;
  });
  const auto both = refine(two_points(), sizes_upto(64),
                           [](std::size_t, auto keys) { return keys[0] == 20 ? 1.5 : 1.0; });
  constexpr std::size_t at_20 = 16;
  EXPECT_NEAR(little.seconds[0][at_20] / little.seconds[1][at_20],
              flat.seconds[0][at_20] / flat.seconds[1][at_20], 1e-9);
  EXPECT_NEAR(both.seconds[0][at_20], 1.5 * flat.seconds[0][at_20], 1e-12);
}

// `steps` works in blocks of five rows: from 6 on it takes twice as long as at 4, which the model
// knows and no measurement tells.
TEST(RefinedLatencies, AnEdgeLiesAtTheStepThatTheModelKnows) {
  const auto estimate = [](std::size_t candidate, std::span<const std::int64_t> keys) {
    return candidate == 1 ? 1e-6 * of_size(keys) : 1e-6 * std::ceil(of_size(keys) / 5) * 5;
  };
  const std::vector fine{refine(two_points(), sizes_upto(64), estimate)};
  const auto coarse = choose_kernels(std::vector{two_points()}, 2).regions[0].entries;
  EXPECT_EQ(to_string(coarse[entry_at(coarse, std::vector<std::int64_t>{7})].schedule), "steps");
  EXPECT_EQ(to_string(coarse[entry_at(coarse, std::vector<std::int64_t>{16})].schedule), "steps");
  const auto entries = choose_kernels(fine, 2).regions[0].entries;
  EXPECT_EQ(to_string(entries[entry_at(entries, std::vector<std::int64_t>{5})].schedule), "steps");
  EXPECT_EQ(to_string(entries[entry_at(entries, std::vector<std::int64_t>{16})].schedule), "even");
  for (const ir::TunedEntry& entry : entries) EXPECT_TRUE(entry.measured);
}

TEST(RefinedLatencies, SeveralKeysTakeTheNearest) {
  const std::vector<std::vector<std::int64_t>> points{{1, 1}, {1, 100}, {100, 1}, {100, 100}};
  const std::vector<double> values{1, 2, 4, 8};
  EXPECT_NEAR(interpolated(points, values, std::vector<std::int64_t>{100, 100}), 8, 1e-3);
  const double between = interpolated(points, values, std::vector<std::int64_t>{1, 10});
  EXPECT_GT(between, 1);
  EXPECT_LT(between, 4);
  EXPECT_DOUBLE_EQ(interpolated({{}}, std::vector<double>{3}, {}), 3);
}

}  // namespace
}  // namespace anydim::tuner
