#include "ir/region.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/ir/symbol_range.h"

namespace anydim::ir {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

class BoundsInBucket : public testing::Test {
 protected:
  BoundsInBucket() {
    for (const char* name : {"rows", "heads", "length"}) symbols_.declare(name, {});
    symbols_.declare("four", range(2, 4));
    symbols_.declare("offset", range(-3, 3));
    symbols_.declare("open", range(1, most));
  }
  Interval bounds_of(const Dim& dim, const Dim& key, BucketInterval interval) const {
    Region region;
    region.keys = {key};
    return bounds_in(region, {.intervals = {interval}}, dim, symbols_);
  }
  static Dim symbol(const char* name) { return Dim::symbol(name); }

  SymbolTable symbols_;
};

TEST_F(BoundsInBucket, TakesTheIntervalOfAKeyAndOfItsProducts) {
  const Dim rows = symbol("rows"), heads = symbol("heads"), four = symbol("four");
  EXPECT_EQ(bounds_of(rows, rows, {7, 256}), (Interval{7, 256}));
  EXPECT_EQ(bounds_of(3 * rows, rows, {7, 256}), (Interval{21, 768}));
  EXPECT_EQ(bounds_of(rows * heads, rows * heads, {7, 256}), (Interval{7, 256}));
  EXPECT_EQ(bounds_of(rows * heads * four, rows * heads, {7, 256}), (Interval{14, 1024}));
  // rows * heads lies in [5, 9]
  EXPECT_EQ(bounds_of(rows * heads, 2 * rows * heads, {10, 19}), (Interval{5, 9}));
  EXPECT_EQ(bounds_of(rows + heads, rows + heads, {7, 256}), (Interval{7, 256}));
}

TEST_F(BoundsInBucket, LeavesOtherDimsTheirOwnBounds) {
  const Dim rows = symbol("rows"), heads = symbol("heads"), four = symbol("four");
  EXPECT_EQ(bounds_of(four, rows, {7, 256}), (Interval{2, 4}));
  EXPECT_EQ(bounds_of(Dim(5), rows, {7, 256}), (Interval{5, 5}));
  EXPECT_EQ(bounds_of(rows, rows * heads, {7, 256}), bounds(rows, symbols_));
  EXPECT_EQ(bounds_of(rows * symbol("offset"), rows, {7, 256}),
            bounds(rows * symbol("offset"), symbols_));
}

TEST_F(BoundsInBucket, HasNoBoundWhereProductsOverflow) {
  const Dim rows = symbol("rows"), open = symbol("open");
  // 3 * rows is at most 3 * 2^61, however large 3 * (the key's end) is.
  EXPECT_EQ(bounds_of(3 * open, 2 * open, {2, std::int64_t{1} << 62}), (Interval{3, most}));
  EXPECT_EQ(bounds_of(open * rows, rows, {1, 10}), (Interval{1, most}));
}

TEST(NarrowToBucket, NarrowsSymbolsThatAreKeys) {
  SymbolTable symbols;
  symbols.declare("rows", range(0, default_symbol_maximum, 4));
  symbols.declare("heads", {});
  Region region;
  region.keys = {Dim::symbol("rows"), 2 * Dim::symbol("heads")};
  narrow(symbols, region, {.intervals = {{8, 64, 8}, {1, 5}}});
  EXPECT_EQ(bounds(Dim::symbol("rows"), symbols), (Interval{8, 64}));
  EXPECT_EQ(symbols.find("rows")->multiple, 8);
  EXPECT_EQ(bounds(Dim::symbol("heads"), symbols), (Interval{0, default_symbol_maximum}));
}

}  // namespace
}  // namespace anydim::ir
