#include "runtime/cuda_kernel.h"

#include <gtest/gtest.h>

#include "ir/dims/symbols.h"
#include "runtime/cuda_capacity.h"

namespace anydim::runtime::cuda {
namespace {

using ir::Dim;

const Dim n = Dim::symbol("n"), m = Dim::symbol("m");

TEST(CapacityStep, ClimbsFourStepsAnOctave) {
  constexpr std::int64_t unlimited = ir::default_symbol_maximum;
  std::vector<std::int64_t> steps;
  for (std::int64_t value = 1; value <= 64; ++value) {
    const std::int64_t step = capacity_step(value, 1, unlimited);
    EXPECT_GE(step, value);
    if (steps.empty() || steps.back() != step) steps.push_back(step);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1,  2,  3,  4,  5,  6,  7,  8,  10, 12,
                                              14, 16, 20, 24, 28, 32, 40, 48, 56, 64}));
  EXPECT_EQ(capacity_step(0, 1, unlimited), 0);
}

TEST(CapacityStep, KeepsMultipleAndLimit) {
  EXPECT_EQ(capacity_step(33, 8, 512), 40);
  EXPECT_EQ(capacity_step(48, 16, 512), 48);
  EXPECT_EQ(capacity_step(500, 1, 510), 510);
  EXPECT_EQ(capacity_step(500, 4, 510), 508);
  EXPECT_EQ(capacity_step(510, 1, 510), 510);
  EXPECT_EQ(capacity_step(std::int64_t{1} << 62, 1, ir::default_symbol_maximum),
            std::int64_t{1} << 62);
}

TEST(GrowsWithLeaves, TellsWhatCannotShrink) {
  EXPECT_TRUE(grows_with_leaves(ceil_div(n, 64) * ceil_div(m, 128)));
  EXPECT_TRUE(grows_with_leaves(min(n * m + 3, Dim(132))));
  EXPECT_TRUE(grows_with_leaves(max(n, m)));
  EXPECT_TRUE(grows_with_leaves(Dim(0)));
  EXPECT_FALSE(grows_with_leaves(n - m));
  EXPECT_FALSE(grows_with_leaves(n - 1));
  EXPECT_FALSE(grows_with_leaves(floor_div(n, m)));
  EXPECT_FALSE(grows_with_leaves(mod(n, 8)));
  EXPECT_FALSE(grows_with_leaves(select(ir::Comparison::Less, n, m, Dim(1), Dim(2))));
}

}  // namespace
}  // namespace anydim::runtime::cuda
