#include "tests/ptx/units/mbarrier.h"

#include <gtest/gtest.h>

namespace anydim::ptx {
namespace {

Mbarrier fresh(std::int64_t arrivals) {
  Mbarrier barrier;
  EXPECT_EQ(mbarrier_init(barrier, arrivals), "");
  return barrier;
}

TEST(Mbarrier, FreshBarrierPassesParityOne) {
  const Mbarrier barrier = fresh(1);
  EXPECT_TRUE(mbarrier_test_parity(barrier, true));
  EXPECT_FALSE(mbarrier_test_parity(barrier, false));
}

TEST(Mbarrier, PhasesNeedEveryArrival) {
  Mbarrier barrier = fresh(2);
  EXPECT_EQ(mbarrier_arrive(barrier, 1), "");
  EXPECT_FALSE(mbarrier_test_parity(barrier, false));
  EXPECT_EQ(mbarrier_arrive(barrier, 1), "");
  EXPECT_TRUE(mbarrier_test_parity(barrier, false));
  EXPECT_FALSE(mbarrier_test_parity(barrier, true));
  EXPECT_EQ(mbarrier_arrive(barrier, 2), "");
  EXPECT_TRUE(mbarrier_test_parity(barrier, true));
}

TEST(Mbarrier, PhasesNeedEveryByte) {
  Mbarrier barrier = fresh(1);
  EXPECT_EQ(mbarrier_arrive_expect(barrier, 4096), "");
  EXPECT_FALSE(mbarrier_test_parity(barrier, false));
  EXPECT_EQ(mbarrier_complete(barrier, 4000), "");
  EXPECT_FALSE(mbarrier_test_parity(barrier, false));
  EXPECT_EQ(mbarrier_complete(barrier, 96), "");
  EXPECT_TRUE(mbarrier_test_parity(barrier, false));
}

// Bytes from a cluster's peer may come before this block announced them.
TEST(Mbarrier, BytesBeforeTheirAnnouncement) {
  Mbarrier barrier = fresh(1);
  EXPECT_EQ(mbarrier_complete(barrier, 128), "");
  EXPECT_FALSE(mbarrier_test_parity(barrier, false));
  EXPECT_EQ(mbarrier_arrive_expect(barrier, 128), "");
  EXPECT_TRUE(mbarrier_test_parity(barrier, false));
}

TEST(Mbarrier, DroppedArrivalsAreMissingLater) {
  Mbarrier barrier = fresh(2);
  EXPECT_EQ(mbarrier_arrive_drop(barrier, 1), "");
  EXPECT_EQ(mbarrier_arrive(barrier, 1), "");
  EXPECT_TRUE(mbarrier_test_parity(barrier, false));
  EXPECT_EQ(mbarrier_arrive(barrier, 1), "");
  EXPECT_TRUE(mbarrier_test_parity(barrier, true));
}

TEST(Mbarrier, Faults) {
  Mbarrier barrier;
  EXPECT_EQ(mbarrier_init(barrier, 0), "the arrival count is 0, not within 1..1048575");
  barrier = fresh(1);
  EXPECT_EQ(mbarrier_arrive(barrier, 2), "2 arrivals where the phase waits for 1 of 1 only");
  EXPECT_EQ(mbarrier_arrive(barrier, 0), "an arrival counts for 0, not within 1..1048575");
  EXPECT_EQ(mbarrier_arrive_drop(barrier, 2), "2 arrivals dropped of 1 expected");
  EXPECT_EQ(mbarrier_arrive_expect(barrier, 16), "");
  EXPECT_EQ(mbarrier_arrive(barrier, 1), "1 arrivals where the phase waits for 0 of 1 only");
  EXPECT_EQ(mbarrier_expect(barrier, mbarrier_count_limit),
            "the transaction count would be 1048591, outside ±1048575");
}

TEST(Mbarrier, WordsKeepTheState) {
  Mbarrier barrier = fresh(12345);
  EXPECT_EQ(mbarrier_arrive(barrier, 45), "");
  EXPECT_EQ(mbarrier_complete(barrier, 77), "");
  barrier.parity = true;
  const std::uint64_t word = encode_mbarrier(barrier);
  EXPECT_TRUE(is_mbarrier_word(word));
  const Mbarrier read = decode_mbarrier(word);
  EXPECT_EQ(read.expected, 12345);
  EXPECT_EQ(read.pending, 12300);
  EXPECT_EQ(read.transactions, -77);
  EXPECT_TRUE(read.parity);
  EXPECT_FALSE(is_mbarrier_word(0));
  EXPECT_FALSE(is_mbarrier_word(~std::uint64_t{0}));
}

}  // namespace
}  // namespace anydim::ptx
