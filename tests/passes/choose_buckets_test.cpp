// Dispatch tables: cells at the backend's edges, neighbours joined, always an answer.
#include "passes/choose_buckets.h"

#include <gtest/gtest.h>

#include "ir/text/parse.h"
#include "tests/support/pass_fixture.h"
#include "tests/support/table_backend.h"

namespace anydim::tests {
namespace {

using namespace ir;

std::vector<std::string> table(const std::string& text, const TableBackend& backend) {
  Module module = parse(text);
  const passes::PipelineOptions options;
  passes::PassContext context{options, &backend};
  passes::run_passes(module, context);
  std::vector<std::string> entries;
  for (const auto& table : context.tables)
    for (const auto& entry : table.entries)
      entries.push_back(to_string(entry.schedule) + " " + to_string(entry.bucket));
  return entries;
}

using Entries = std::vector<std::string>;

constexpr const char* one_key = R"(
fn @main(%x: Tensor[(n), f32]) where n in [0, 1000] {
  %y = relu(%x)
  return %y
})";

TEST(ChooseBuckets, CellsOfEqualSchedulesJoinAndAGeneralEntryEndsTheTable) {
  EXPECT_EQ(table(one_key, {}),
            (Entries{"small [0, 127]", "large [128, 1000]", "small [0, 1000]"}));
}

TEST(ChooseBuckets, AGeneralKernelThatStandsInHasLittleCodeWhereItIsNotMuchSlower) {
  const std::string text = R"(
fn @main(%x: Tensor[(n), f32]) where n in [100, 1000] {
  %y = relu(%x)
  return %y
})";
  TableBackend backend;
  backend.crossing = 220;  // over the whole range `small` takes 1.06 times as long as `large`
  EXPECT_EQ(table(text, backend).back(), "large [100, 1000]");
  backend.large_code = 2;
  const Entries entries = table(text, backend);
  EXPECT_EQ(entries.back(), "small [100, 1000]");
  EXPECT_EQ(entries[entries.size() - 2], "large [128, 1000]");
  EXPECT_EQ(table("policy symbolic" + text, backend), Entries{"large [100, 1000]"});
  backend.crossing = 150;  // 1.9 times
  EXPECT_EQ(table(text, backend).back(), "large [100, 1000]");
}

TEST(ChooseBuckets, OneScheduleEverywhereIsOneEntry) {
  TableBackend backend;
  backend.crossing = 1e9;
  EXPECT_EQ(table(one_key, backend), Entries{"small [0, 1000]"});
}

TEST(ChooseBuckets, TheSymbolicPolicyTakesOneKernelForTheWholeRange) {
  EXPECT_EQ(table("policy symbolic" + std::string(one_key), {}), Entries{"small [0, 1000]"});
}

TEST(ChooseBuckets, TheLastPolicyThatNamesARegionOrAllOfThemCounts) {
  const std::string text = one_key;
  EXPECT_EQ(table("policy symbolic\npolicy @relu_0 bucketed" + text, {}).size(), 3u);
  EXPECT_EQ(table("policy symbolic\npolicy @relu_0 exact" + text, {}).size(), 3u);
  EXPECT_EQ(table("policy @relu_0 bucketed\npolicy symbolic" + text, {}).size(), 1u);
  EXPECT_EQ(table("policy symbolic\npolicy @relu_1 bucketed" + text, {}).size(), 1u);
}

TEST(ChooseBuckets, ARegionWithoutVaryingSizesHasOneEntry) {
  EXPECT_EQ(table("fn @main(%x: Tensor[(4), f32]) {\n %y = relu(%x)\n return %y\n}", {}),
            Entries{"small any"});
}

TEST(ChooseBuckets, EdgesOutsideOfTheRangeCutNothing) {
  TableBackend backend;
  backend.edges = {0, 1, 1001, 5000};
  backend.crossing = 1e9;
  EXPECT_EQ(table(one_key, backend), Entries{"small [0, 1000]"});
}

TEST(ChooseBuckets, WhatNothingCutsIsChosenForSizesOfAllOrders) {
  TableBackend backend;
  backend.edges = {};
  backend.crossing = 20;
  EXPECT_EQ(table(one_key, backend), Entries{"large [0, 1000]"});
}

// Keys are multiples of a row's 100 elements: no call has a size below, none between 100 and 200.
TEST(ChooseBuckets, CellsBeginAtSizesThatCallsMayHave) {
  const std::string text = R"(
fn @main(%x: Tensor[(n, 100), f32]) where n in [0, 10] {
  %y = relu(%x)
  return %y
})";
  TableBackend backend;
  backend.edges = {2, 7, 101, 128, 150, 950, 1001};
  backend.crossing = 150;
  EXPECT_EQ(table(text, backend),
            (Entries{"small [0, 199] multiple 100", "large [200, 1000] multiple 100",
                     "large [0, 1000] multiple 100"}));
  backend.edges = {2, 100};
  EXPECT_EQ(table(text, backend), Entries{"large [0, 1000] multiple 100"});
}

TEST(ChooseBuckets, EveryKeyInRangeHasAnEntry) {
  Module module = parse(R"(
fn @main(%x: Tensor[(n, k), f32], %y: Tensor[(k, m), f32]) where n in [0, 40], k in [1, 40], m in [2, 40] multiple 2 {
  %z = matmul(%x, %y)
  return %z
})");
  TableBackend backend;
  backend.edges = {5, 6, 17};
  backend.crossing = 8;
  passes::PipelineOptions options;
  passes::PassContext context{options, &backend};
  passes::run_passes(module, context);
  ASSERT_EQ(context.tables.size(), 1u);
  ASSERT_EQ(module.regions[0].keys.size(), 3u);
  for (std::int64_t n = 0; n <= 40; ++n)
    for (std::int64_t k = 1; k <= 40; ++k)
      for (std::int64_t m = 2; m <= 40; m += 2) {
        std::vector<std::int64_t> keys;
        for (const Dim& key : module.regions[0].keys) {
          const auto& names = module.regions[0].body.symbols.names();
          std::map<std::string, std::int64_t> values{{names[0], n}, {names[1], k}, {names[2], m}};
          keys.push_back(key.evaluate([&](const DimLeaf& leaf) { return values.at(leaf.symbol); }));
        }
        const auto& entries = context.tables[0].entries;
        ASSERT_TRUE(std::any_of(entries.begin(), entries.end(),
                                [&](const auto& entry) { return entry.bucket.contains(keys); }));
      }
}

// ---- With a tuning table ----

struct Tuned {
  Module module;
  DispatchTable table;
};

// The one region's table where `rows` are its tuned ones.
Tuned tuned(std::vector<TunedEntry> rows, Policy policy = Policy::Bucketed,
            const std::string& other_identity = {}) {
  Tuned result{parse(one_key), {}};
  TableBackend backend;
  const passes::PipelineOptions options;
  Module source = parse(one_key);
  source.policies = {{"", policy}};
  {
    Module fused = source;
    passes::PassContext context{options, &backend};
    passes::run_passes(fused, context);
    result.module = fused;
  }
  TuningTable tuning;
  tuning.regions[other_identity.empty() ? result.module.regions[0].identity : other_identity] =
      std::move(rows);
  passes::PassContext context{.options = options, .backend = &backend, .tuning = &tuning};
  passes::run_passes(result.module = source, context);
  result.table = context.tables.at(0);
  return result;
}

Entries texts(const DispatchTable& table) {
  Entries entries;
  for (const auto& entry : table.entries)
    entries.push_back(to_string(entry.schedule) + " " + to_string(entry.bucket) + " " +
                      std::string(name_of(entry.origin)));
  return entries;
}

TunedEntry tuned_row(std::int64_t low, std::int64_t high, const std::string& schedule,
                     bool measured = true) {
  const Bucket bucket{{{low, high, 1}}};
  return {.bucket = bucket,
          .kernel = {{{0, 1000, 1}}},
          .schedule = {schedule, {}},
          .seconds = 1e-6,
          .measured = measured};
}

TEST(ChooseBuckets, TunedRowsStandInPlaceOfTheCells) {
  const Tuned result = tuned(
      {tuned_row(0, 40, "large"), tuned_row(41, 300, "small", false), tuned_row(0, 1000, "large")});
  EXPECT_EQ(texts(result.table),
            (Entries{"large [0, 40] tuned, measured", "small [41, 300] tuned, predicted",
                     "large [0, 1000] tuned, measured"}));
  // Rows of one kernel share its code.
  EXPECT_EQ(result.table.entries[0].compiled_for(), result.table.entries[2].compiled_for());
  EXPECT_DOUBLE_EQ(result.table.entries[0].estimated_seconds, 1e-6);
}

TEST(ChooseBuckets, ATunedRowMayHaveAScheduleThatTheCostModelLeavesOut) {
  EXPECT_EQ(texts(tuned({tuned_row(0, 40, "rare"), tuned_row(0, 1000, "large")}).table),
            (Entries{"rare [0, 40] tuned, measured", "large [0, 1000] tuned, measured"}));
}

TEST(ChooseBuckets, ATunedTableThatIsNotTotalGetsTheGeneralEntry) {
  EXPECT_EQ(texts(tuned({tuned_row(0, 40, "large")}).table),
            (Entries{"large [0, 40] tuned, measured", "small [0, 1000] predicted"}));
}

TEST(ChooseBuckets, RowsThatDoNotFitAreLeftOut) {
  TunedEntry unknown = tuned_row(0, 40, "enormous"), two_keys = tuned_row(0, 40, "large"),
             narrow = tuned_row(0, 40, "large");
  two_keys.bucket.intervals.push_back({0, 1, 1});
  narrow.kernel = {{{0, 30, 1}}};
  const Tuned result = tuned({unknown, two_keys, narrow, tuned_row(0, 1000, "large")});
  EXPECT_EQ(texts(result.table), Entries{"large [0, 1000] tuned, measured"});
  // Where none fits, the cost model chooses as it would without tuning.
  EXPECT_EQ(texts(tuned({unknown}).table),
            (Entries{"small [0, 127] predicted", "large [128, 1000] predicted",
                     "small [0, 1000] predicted"}));
}

TEST(ChooseBuckets, TuningIsForTheBucketedPolicyAndItsOwnRegion) {
  EXPECT_EQ(texts(tuned({tuned_row(0, 1000, "large")}, Policy::Symbolic).table),
            Entries{"small [0, 1000] predicted"});
  EXPECT_EQ(texts(tuned({tuned_row(0, 1000, "large")}, Policy::Bucketed, "another").table).size(),
            3u);
}

}  // namespace
}  // namespace anydim::tests
