// Which element of a reshape's operand an element of its result is, where sizes are not known.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/loops/scalar_access.h"

namespace anydim::ir {
namespace {

class ReshapeIndex : public ::testing::Test {
 protected:
  ReshapeIndex() {
    SymbolInfo size_range;
    size_range.high = 1 << 20;
    for (const char* size : {"n", "h", "w", "m"}) symbols.declare(size, size_range);
    for (const char* index : {"i", "j", "k", "l", "a"}) symbols.declare(index, size_range);
  }

  // Of the element at i, j, k, l, a, as far as `from` has dims.
  std::string text(const std::vector<Dim>& from, const std::vector<Dim>& to) const {
    std::vector<Dim> index;
    for (const char* name : {"i", "j", "k", "l", "a"})
      if (index.size() < from.size()) index.push_back(Dim::symbol(name));
    std::string all;
    for (const Dim& dim : reshape_index(index, from, to, symbols))
      all += (all.empty() ? "" : ", ") + dim.to_string();
    return all;
  }

  SymbolTable symbols;
  const Dim n = Dim::symbol("n"), h = Dim::symbol("h"), w = Dim::symbol("w"), m = Dim::symbol("m");
};

// That a call's dims are multiples of the block is what makes the numbers of elements equal.
TEST_F(ReshapeIndex, DimsSplitIntoBlocksEachByItself) {
  EXPECT_EQ(text({n, floor_div(h, 4), 4, floor_div(w, 2), 2}, {n, h, w}), "i, 4*j + k, a + 2*l");
  EXPECT_EQ(text({n, h, w}, {n, floor_div(h, 4), 4, floor_div(w, 2), 2}),
            "i, floor_div(j, 4), mod(j, 4), floor_div(k, 2), mod(k, 2)");
  EXPECT_EQ(text({n, ceil_div(h, 4), 4, ceil_div(w, 2), 2}, {n, h, w}), "i, 4*j + k, a + 2*l");
  EXPECT_EQ(text({n, ceil_div(h, 2), ceil_div(w, 2)},
                 {n, floor_div(h + 1, 4), 2, floor_div(w + 1, 4), 2}),
            "i, floor_div(j, 2), mod(j, 2), floor_div(k, 2), mod(k, 2)");
  EXPECT_EQ(text({128, floor_div(h, 4), 2, floor_div(w, 4), 2},
                 {4, 32, floor_div(h, 2), floor_div(w, 2)}),
            "floor_div(i, 32), mod(i, 32), 2*j + k, a + 2*l");
}

// ONNX's Reshape copies the operand's size in the place of a 0: where there is an element, no size
// is 0.
TEST_F(ReshapeIndex, NoSizeIsZeroWhereAnElementIs) {
  const Dim copied = select(Comparison::Equal, w, 0, 16, w);
  EXPECT_EQ(text({8, h, w, 16}, {8, floor_div(h * w, 2 * copied), 2, copied, 16}),
            "i, floor_div(j, 2), mod(j, 2), k, l");
  EXPECT_EQ(text({n, copied, m}, {n, w, m}), "i, j, k");
  EXPECT_EQ(text({n, 4, floor_div(h * w * m, 4)}, {n, h, copied, m}).substr(0, 2), "i,");
}

// One dim may be as many more as another one is fewer, and sizes that are not near each other tell
// nothing: then elements are counted through.
TEST_F(ReshapeIndex, OthersAreCountedThrough) {
  const std::string through = text({floor_div(h, 4), 4, ceil_div(w, 2), 2}, {h, w});
  EXPECT_NE(through.find("floor_div("), std::string::npos) << through;
  EXPECT_EQ(text({n, 6}, {m, 3}), "2*i + floor_div(j, 3), mod(j, 3)");
}

}  // namespace
}  // namespace anydim::ir
