// The quick lookup answers as trying the rows one after the other does.
#include "runtime/bucket_lookup.h"

#include <gtest/gtest.h>

#include <random>

namespace anydim::runtime {
namespace {

std::size_t tried_in_order(const ir::DispatchTable& table, const std::vector<std::int64_t>& keys) {
  std::size_t row = 0;
  while (row + 1 < table.entries.size() && !table.entries[row].bucket.contains(keys)) ++row;
  return row;
}

ir::DispatchTable random_table(std::mt19937& random, std::size_t rows, std::size_t keys) {
  ir::DispatchTable table;
  for (std::size_t row = 0; row < rows; ++row) {
    ir::Bucket bucket;
    for (std::size_t key = 0; key < keys; ++key) {
      const std::int64_t low = random() % 40, width = random() % 30;
      const bool open = random() % 10 == 0;
      bucket.intervals.push_back(
          {low, open ? std::numeric_limits<std::int64_t>::max() : low + width,
           random() % 3 == 0 ? 1 + static_cast<std::int64_t>(random() % 4) : 1});
    }
    table.entries.push_back({bucket, {"s", {}}});
  }
  table.entries.push_back({{std::vector(keys, ir::BucketInterval{0, 1000, 1})}, {"general", {}}});
  return table;
}

TEST(BucketLookup, AnswersAsTryingRowsInOrder) {
  std::mt19937 random(5);
  for (int turn = 0; turn < 300; ++turn) {
    const std::size_t keys = turn % 20 == 0 ? 20 : random() % 4;
    const ir::DispatchTable table = random_table(random, random() % 150, keys);
    const BucketLookup lookup(table);
    for (int probe = 0; probe < 100; ++probe) {
      std::vector<std::int64_t> values;
      for (std::size_t key = 0; key < keys; ++key) values.push_back(random() % 75);
      ASSERT_EQ(lookup.find(values), tried_in_order(table, values));
    }
  }
}

TEST(BucketLookup, EdgesBelongToTheirIntervals) {
  ir::DispatchTable table;
  table.entries = {{{{{1, 15, 1}}}, {"a", {}}},
                   {{{{16, 16, 1}}}, {"b", {}}},
                   {{{{17, 64, 16}}}, {"c", {}}},
                   {{{{0, 4096, 1}}}, {"d", {}}}};
  const BucketLookup lookup(table);
  const std::vector<std::pair<std::int64_t, std::size_t>> expected{
      {0, 3}, {1, 0}, {15, 0}, {16, 1}, {17, 3}, {32, 2}, {64, 2}, {65, 3}, {4096, 3}, {99999, 3}};
  for (const auto& [value, row] : expected)
    EXPECT_EQ(lookup.find(std::vector{value}), row) << value;
}

}  // namespace
}  // namespace anydim::runtime
