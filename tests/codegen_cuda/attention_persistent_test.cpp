// attention_wgmma whose blocks work on several places of the grid, on the PTX interpreter.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/codegen_cuda/attention_cases.h"
#include "tests/support/attention_regions.h"

namespace anydim::codegen_cuda::testing {
namespace {

using Region = std::shared_ptr<const TestRegion>;

// No place, fewer than there are blocks, and several for each; none, one, two and three tiles of
// keys, so that places begin at either stage of the ring.
TEST(AttentionPersistent, NumbersOfPlacesAndTiles) {
  const Region region =
      make_region(merged_attention({.heads = 2, .depth = 64, .mask = AttentionMask::Padding}));
  expect_right(region, "attention_wgmma groups=1 keys=32 stages=2 persistent=1",
               {{{"b", 0}, {"s", 20}},
                {{"b", 3}, {"s", 0}},
                {{"b", 1}, {"s", 1}},
                {{"b", 5}, {"s", 32}},
                {{"b", 3}, {"s", 70}}});
  expect_right(region, "attention_wgmma groups=1 keys=16 stages=3 persistent=1",
               {{{"b", 4}, {"s", 65}}});
  expect_right(region, "attention_wgmma groups=2 keys=64 stages=1 persistent=1",
               {{{"b", 3}, {"s", 70}}});
}

// Registers are shared out among more blocks.
TEST(AttentionPersistent, BlocksOfAMultiprocessor) {
  const Region region = make_region(merged_attention({.heads = 2, .depth = 32}));
  for (const auto& [blocks, keys] : {std::pair(3, 64), std::pair(4, 48)})
    expect_right(region,
                 fmt::format("attention_wgmma groups=1 keys={} stages=2 persistent=1 blocks={}",
                             keys, blocks),
                 {{{"b", 5}, {"s", 33}}, {{"b", 9}, {"s", 20}}});
}

TEST(AttentionPersistent, InTurn) {
  const Region region = make_region(merged_attention({.heads = 1, .depth = 32}));
  for (const char* schedule : {"attention_wgmma groups=2 keys=32 stages=2 pingpong=1 persistent=1",
                               "attention_wgmma groups=3 keys=48 stages=2 pingpong=1 persistent=1"})
    expect_right(region, schedule, {{{"b", 5}, {"s", 33}}, {{"b", 3}, {"s", 200}}});
}

// Each row's keys differ, and with them a place's tiles.
TEST(AttentionPersistent, Masks) {
  for (const AttentionMask mask :
       {AttentionMask::Causal, AttentionMask::Window, AttentionMask::Bias}) {
    SCOPED_TRACE(static_cast<int>(mask));
    const Region region =
        make_region(merged_attention({.heads = 1, .depth = 32, .mask = mask, .window = 50}));
    expect_right(region, "attention_wgmma groups=1 keys=32 stages=2 persistent=1",
                 {{{"b", 2}, {"s", 171}}, {{"b", 5}, {"s", 40}}});
  }
}

TEST(AttentionPersistent, CheckedForm) {
  const Region region = make_region(merged_attention({.heads = 1, .depth = 64}));
  expect_right(region, "attention_wgmma groups=2 keys=32 stages=2 persistent=1",
               {{{"b", 5}, {"s", 100}}}, true);
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
