// Dispatch tables: cells at the backend's edges, neighbours joined, always an answer.
#include "passes/choose_buckets.h"

#include <gtest/gtest.h>

#include "ir/parse.h"
#include "tests/support/pass_fixture.h"
#include "tests/support/table_backend.h"

namespace anydim::tests {
namespace {

using namespace ir;

std::vector<std::string> table(const std::string& text, const TableBackend& backend, passes::PipelineOptions options = {}) {
  Module module = parse(text);
  passes::PassContext context{options, &backend};
  passes::run_passes(module, context);
  std::vector<std::string> entries;
  for (const auto& table : context.tables)
    for (const auto& entry : table.entries) entries.push_back(to_string(entry.schedule) + " " + to_string(entry.bucket));
  return entries;
}

using Entries = std::vector<std::string>;

constexpr const char* one_key = R"(
fn @main(%x: Tensor[(n), f32]) where n in [0, 1000] {
  %y = relu(%x)
  return %y
})";

TEST(ChooseBuckets, CellsOfEqualSchedulesJoinAndAGeneralEntryEndsTheTable) {
  EXPECT_EQ(table(one_key, {}), (Entries{"small [0, 127]", "large [128, 1000]", "small [0, 1000]"}));
}

TEST(ChooseBuckets, OneScheduleEverywhereIsOneEntry) {
  TableBackend backend;
  backend.crossing = 1e9;
  EXPECT_EQ(table(one_key, backend), Entries{"small [0, 1000]"});
}

TEST(ChooseBuckets, TheSymbolicPolicyTakesOneKernelForTheWholeRange) {
  passes::PipelineOptions options;
  options.policy = passes::Policy::Symbolic;
  EXPECT_EQ(table(one_key, {}, options), Entries{"small [0, 1000]"});
}

TEST(ChooseBuckets, ARegionsOwnPolicyComesFirst) {
  passes::PipelineOptions options;
  options.policy = passes::Policy::Symbolic;
  options.region_policies.emplace("relu_0", passes::Policy::Bucketed);
  EXPECT_EQ(table(one_key, {}, options).size(), 3u);
}

TEST(ChooseBuckets, ARegionWithoutVaryingSizesHasOneEntry) {
  EXPECT_EQ(table("fn @main(%x: Tensor[(4), f32]) {\n %y = relu(%x)\n return %y\n}", {}), Entries{"small any"});
}

TEST(ChooseBuckets, EdgesOutsideOfTheRangeCutNothing) {
  TableBackend backend;
  backend.edges = {0, 1, 1001, 5000};
  backend.crossing = 1e9;
  EXPECT_EQ(table(one_key, backend), Entries{"small [0, 1000]"});
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
        ASSERT_TRUE(std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.bucket.contains(keys); }));
      }
}

}  // namespace
}  // namespace anydim::tests
