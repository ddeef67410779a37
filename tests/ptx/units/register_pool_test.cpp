#include "tests/ptx/units/register_pool.h"

#include <gtest/gtest.h>

namespace anydim::ptx {
namespace {

// What ptxas gave the same kernel under three launch bounds.
TEST(RegisterPool, RegistersAtLaunch) {
  EXPECT_EQ(registers_at_launch(384, 1, 232), 168);
  EXPECT_EQ(registers_at_launch(256, 2, 232), 128);
  EXPECT_EQ(registers_at_launch(256, 1, 232), 232);
  EXPECT_EQ(registers_at_launch(512, 1, 160), 128);
}

// One producer and consumers, all warps of a warpgroup alike: whether every .inc is met once all
// .dec are done.
bool fits(int threads, int blocks, int producer, int consumer) {
  RegisterPool pool(threads / 32, registers_at_launch(threads, blocks, consumer));
  for (int warp = 0; warp < 4; ++warp) EXPECT_EQ(pool.release(warp, producer), "");
  bool met = true;
  for (int warp = 4; warp < threads / 32; ++warp) {
    EXPECT_EQ(pool.check_acquire(warp, consumer), "");
    met = pool.try_acquire(warp, consumer) && met;
  }
  return met;
}

TEST(RegisterPool, KnownPairs) {
  EXPECT_TRUE(fits(384, 1, 40, 232));
  EXPECT_TRUE(fits(384, 1, 24, 240));
  EXPECT_TRUE(fits(512, 1, 32, 160));
  EXPECT_TRUE(fits(256, 2, 24, 232));
  EXPECT_FALSE(fits(256, 2, 40, 232));
  EXPECT_FALSE(fits(384, 1, 40, 240));
  EXPECT_TRUE(fits(256, 1, 56, 256));
}

TEST(RegisterPool, Faults) {
  RegisterPool pool(1, 128);
  EXPECT_EQ(pool.release(0, 30), "30 registers: the count must be a multiple of 8 within 24..256");
  EXPECT_EQ(pool.release(0, 264),
            "264 registers: the count must be a multiple of 8 within 24..256");
  EXPECT_EQ(pool.release(0, 136), "setmaxnreg.dec to 136 where the warp has 128 registers");
  EXPECT_EQ(pool.check_acquire(0, 120), "setmaxnreg.inc to 120 where the warp has 128 registers");
}

}  // namespace
}  // namespace anydim::ptx
