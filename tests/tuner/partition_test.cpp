// The choice of kernels: never beaten by trying everything, bounded from below, and a table that
// answers everywhere.
#include "tuner/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ir/error.h"
#include "tuner/table_builder.h"

namespace anydim::tuner {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

RegionLatencies region_of(std::vector<std::vector<double>> seconds,
                          std::vector<double> weights = {}) {
  RegionLatencies region{.region = "r",
                         .range = {{{1, 1000, 1}}},
                         .points = {},
                         .weights = std::move(weights),
                         .candidates = {},
                         .seconds = std::move(seconds)};
  for (std::size_t p = 0; p < region.seconds[0].size(); ++p)
    region.points.push_back({static_cast<std::int64_t>(10 * (p + 1))});
  if (region.weights.empty()) region.weights.assign(region.points.size(), 1);
  for (std::size_t c = 0; c < region.seconds.size(); ++c)
    region.candidates.push_back({{"s" + std::to_string(c), {}}, {}});
  return region;
}

// The least cost of all choices of at most `most` candidates with a general one in every region.
double tried_all(const std::vector<RegionLatencies>& regions, std::int64_t most) {
  // least[k] over the regions so far with k kept.
  std::vector<double> least(static_cast<std::size_t>(most) + 1, infinity);
  least[0] = 0;
  for (const RegionLatencies& region : regions) {
    std::vector<double> own(least.size(), infinity);
    for (std::uint32_t set = 1; set < (1U << region.candidates.size()); ++set) {
      double cost = 0;
      bool general = false;
      for (std::size_t p = 0; p < region.points.size(); ++p) {
        double best = infinity;
        for (std::size_t c = 0; c < region.candidates.size(); ++c)
          if ((set >> c & 1) != 0 && serves(region, c, p))
            best = std::min(best, region.seconds[c][p]);
        cost += region.weights[p] == 0 ? 0 : region.weights[p] * best;
      }
      for (std::size_t c = 0; c < region.candidates.size(); ++c)
        general = general || ((set >> c & 1) != 0 && is_general(region, c));
      const auto count = static_cast<std::size_t>(__builtin_popcount(set));
      if (general && count < own.size()) own[count] = std::min(own[count], cost);
    }
    std::vector<double> next(least.size(), infinity);
    for (std::size_t a = 0; a < least.size(); ++a)
      for (std::size_t b = 1; a + b < least.size(); ++b)
        next[a + b] = std::min(next[a + b], least[a] + own[b]);
    least = next;
  }
  return *std::ranges::min_element(least);
}

double cost_by_table(const std::vector<RegionLatencies>& regions, const Partition& partition) {
  double sum = 0;
  for (std::size_t r = 0; r < regions.size(); ++r)
    for (std::size_t p = 0; p < regions[r].points.size(); ++p) {
      const auto& entries = partition.regions[r].entries;
      const std::size_t row = entry_at(entries, regions[r].points[p]);
      for (std::size_t c = 0; c < regions[r].candidates.size(); ++c)
        if (regions[r].candidates[c].schedule == entries.at(row).schedule &&
            kernel_bucket(regions[r], c) == entries.at(row).kernel)
          sum += regions[r].weights[p] * regions[r].seconds[c][p];
    }
  return sum;
}

TEST(Partition, OneKernelServesManyIntervals) {
  // s0 is best at both ends, s1 in the middle.
  const std::vector regions{
      region_of({{1, 1, 9, 9, 1, 1}, {5, 5, 2, 2, 5, 5}, {3, 3, 3, 3, 3, 3}})};
  const Partition partition = choose_kernels(regions, 2);
  EXPECT_EQ(partition.kernels, 2);
  EXPECT_DOUBLE_EQ(partition.expected_seconds, 8);
  EXPECT_DOUBLE_EQ(partition.unlimited_seconds, 8);
  EXPECT_NEAR(partition.lower_bound_seconds, 8, 1e-6);
  ASSERT_EQ(partition.regions[0].entries.size(), 2u);
  EXPECT_EQ(to_string(partition.regions[0].entries[0].bucket), "[30, 49]");
  EXPECT_EQ(to_string(partition.regions[0].entries[0].schedule), "s1");
  EXPECT_EQ(to_string(partition.regions[0].entries[1].bucket), "[1, 1000]");
  EXPECT_EQ(to_string(partition.regions[0].entries[1].schedule), "s0");
  EXPECT_EQ(to_string(partition.regions[0].entries[1].kernel), "[1, 1000]");
}

TEST(Partition, AnEdgeLiesWhereTheBackendSaysThatTheBestMayChange) {
  RegionLatencies region = region_of({{1, 1, 9, 9}, {5, 5, 2, 2}});
  region.edges = {{16, 25, 33}};
  const Partition partition = choose_kernels(std::vector{region}, 2);
  EXPECT_EQ(to_string(partition.regions[0].entries[0].bucket), "[1, 24]");
}

// A short launch hardly shows in the expected seconds, but in the tail of the slowest.
TEST(Partition, TheTailIsMendedWhereThatCostsLittle) {
  const auto regions = [](double at_most) {
    return std::vector{region_of({{1, 0.02}, {at_most, 0.01}}, {97, 3})};
  };
  const auto kept = [](const std::vector<RegionLatencies>& from, const Partition& partition) {
    return to_string(from[0].candidates[partition.regions[0].candidates.at(0)].schedule);
  };
  const auto cheap = regions(1.005), dear = regions(1.02);
  const Partition plain = choose_kernels(cheap, 1);
  EXPECT_EQ(kept(cheap, plain), "s0");
  EXPECT_DOUBLE_EQ(tail_slowdown(cheap, plain), 2);
  const Partition mended = choose_kernels(cheap, 1, Tail{});
  EXPECT_EQ(kept(cheap, mended), "s1");
  EXPECT_DOUBLE_EQ(tail_slowdown(cheap, mended), 1.005);
  EXPECT_DOUBLE_EQ(mended.expected_seconds, 97 * 1.005 + 3 * 0.01);
  EXPECT_EQ(kept(dear, choose_kernels(dear, 1, Tail{})), "s0");
}

TEST(Partition, TheBudgetGoesWhereItWinsMost) {
  const std::vector regions{region_of({{2, 1}, {1, 2}}), region_of({{20, 10}, {10, 20}}),
                            region_of({{7, 7}})};
  const Partition partition = choose_kernels(regions, 4);
  EXPECT_EQ(partition.regions[0].candidates.size(), 1u);
  EXPECT_EQ(partition.regions[1].candidates.size(), 2u);
  EXPECT_EQ(partition.regions[2].candidates.size(), 1u);
  EXPECT_DOUBLE_EQ(partition.expected_seconds, 3 + 20 + 14);
}

TEST(Partition, NeverBeatenByTryingEverything) {
  std::mt19937 random(7);
  const auto upto = [&](int most) {
    return static_cast<std::size_t>(random() % static_cast<unsigned>(most));
  };
  int optimal = 0, tight = 0;
  constexpr int cases = 400;
  for (int turn = 0; turn < cases; ++turn) {
    std::vector<RegionLatencies> regions;
    for (std::size_t r = 0, count = 1 + upto(3); r < count; ++r) {
      std::vector<std::vector<double>> seconds(2 + upto(6), std::vector<double>(2 + upto(9)));
      for (auto& row : seconds) {
        row.resize(seconds[0].size());
        double level = 1 + static_cast<double>(upto(20));
        for (double& value : row) {
          level = std::max(1.0, level + static_cast<double>(upto(7)) - 3);
          value = upto(12) == 0 ? infinity : level;
        }
      }
      std::ranges::fill(seconds[0], 30);
      std::vector<double> weights(seconds[0].size());
      for (double& weight : weights) weight = static_cast<double>(upto(4));
      regions.push_back(region_of(std::move(seconds), std::move(weights)));
    }
    const auto most = static_cast<std::int64_t>(regions.size() + upto(6));
    const Partition partition = choose_kernels(regions, most);
    const double best = tried_all(regions, most);
    ASSERT_LE(partition.kernels, most);
    ASSERT_NEAR(partition.expected_seconds, cost_by_table(regions, partition), 1e-9);
    ASSERT_GE(partition.expected_seconds, best * (1 - 1e-9));
    ASSERT_LE(partition.expected_seconds, best * 1.05 + 1e-9) << "case " << turn;
    ASSERT_LE(partition.lower_bound_seconds, best * (1 + 1e-9) + 1e-9);
    ASSERT_LE(partition.unlimited_seconds, partition.lower_bound_seconds + 1e-9);
    optimal += partition.expected_seconds <= best * (1 + 1e-9) + 1e-12 ? 1 : 0;
    tight += partition.lower_bound_seconds >= best * 0.98 ? 1 : 0;
  }
  RecordProperty("optimal", optimal);
  EXPECT_GE(optimal, cases * 98 / 100);
  EXPECT_GE(tight, cases * 95 / 100);
}

TEST(Partition, AKernelForMultiplesServesOnlyThem) {
  RegionLatencies region = region_of({{4, 4, 4, 4}, {1, infinity, 1, infinity}, {3, 3, 3, 3}});
  region.points = {{16}, {20}, {32}, {40}};
  region.candidates[1].multiples = {16};
  const Partition partition = choose_kernels(std::vector{region}, 2);
  const auto& entries = partition.regions[0].entries;
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(to_string(entries[0].bucket), "[1, 1000] multiple 16");
  EXPECT_EQ(to_string(entries[0].kernel), "[1, 1000] multiple 16");
  EXPECT_EQ(to_string(entries[0].schedule), "s1");
  EXPECT_EQ(to_string(entries[1].schedule), "s2");
  EXPECT_DOUBLE_EQ(partition.expected_seconds, 8);
}

TEST(Partition, BoxesOverTwoKeysFindACornerThatNoSingleCutFinds) {
  // s1 wins where exactly one of the keys is large.
  RegionLatencies region{.region = "r",
                         .range = {{{1, 100, 1}, {1, 100, 1}}},
                         .points = {},
                         .weights = {},
                         .candidates = {{{"s0", {}}, {}}, {{"s1", {}}, {}}},
                         .seconds = {{}, {}}};
  for (const std::int64_t a : {10, 90})
    for (const std::int64_t b : {10, 90}) {
      region.points.push_back({a, b});
      region.weights.push_back(1);
      region.seconds[0].push_back(a == b ? 1 : 2);
      region.seconds[1].push_back(a == b ? 2 : 1);
    }
  const Partition partition = choose_kernels(std::vector{region}, 2);
  EXPECT_DOUBLE_EQ(partition.expected_seconds, 4);
}

TEST(Partition, ATableStaysTotalAndShort) {
  std::mt19937 random(3);
  std::vector<std::vector<double>> seconds(6, std::vector<double>(90));
  for (auto& row : seconds)
    for (double& value : row) value = 1 + static_cast<double>(random() % 100);
  const std::vector regions{region_of(std::move(seconds))};
  const Partition partition = choose_kernels(regions, 6, 10);
  const auto& entries = partition.regions[0].entries;
  EXPECT_LE(entries.size(), 10u);
  EXPECT_EQ(entries.back().bucket, regions[0].range);
  for (std::int64_t value = 1; value <= 1000; ++value)
    ASSERT_LT(entry_at(entries, std::vector{value}), entries.size());
  EXPECT_NEAR(partition.expected_seconds, cost_by_table(regions, partition), 1e-9);
  EXPECT_GT(partition.expected_seconds, choose_kernels(regions, 6).expected_seconds);
}

TEST(Partition, EntriesSayWhatWasMeasured) {
  RegionLatencies region = region_of({{1, 1, 9, 9}, {5, 5, 2, 2}});
  region.measured = {{true, false, false, false}, {false, false, false, false}};
  const Partition partition = choose_kernels(std::vector{region}, 2);
  EXPECT_TRUE(partition.regions[0].entries[0].measured);
  EXPECT_DOUBLE_EQ(partition.regions[0].entries[0].seconds, 1);
  EXPECT_FALSE(partition.regions[0].entries[1].measured);
}

TEST(Partition, TooFewKernelsIsSaid) {
  const std::vector regions{region_of({{1}}), region_of({{1}})};
  try {
    choose_kernels(regions, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
    EXPECT_STREQ(error.what(),
                 "--max-kernels 1 is below the 2 regions of the model, each of which needs a "
                 "kernel; give at least 2");
  }
}

TEST(Partition, ARegionThatNothingServesIsSaid) {
  try {
    choose_kernels(std::vector{region_of({{1, infinity}, {infinity, 1}})}, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Inputs);
    EXPECT_STREQ(
        error.what(),
        "the latencies of region `r` cannot be used: no candidate has a time at every point");
  }
}

}  // namespace
}  // namespace anydim::tuner
