// Memory of values that outlive blocks, and of frames that stack.
#include "runtime/value_pool.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/frame_memory.h"
#include "runtime/frame_stack.h"

namespace anydim::runtime {
namespace {

TEST(ValuePool, BlocksAreAlignedAndUsedAgain) {
  HostFrameMemory memory;
  ValuePool pool(memory);
  for (const std::size_t bytes : {0u, 1u, 64u, 65u, 1000u, 40'000u, 3'000'000u}) {
    Value first = pool.take(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data) % 64, 0u) << bytes;
    EXPECT_GE(ValuePool::rounded(bytes), bytes);
    EXPECT_LE(ValuePool::rounded(bytes), std::max<std::size_t>(64, bytes + bytes / 4 + 64))
        << "a quarter is the most that rounding wastes";
    EXPECT_EQ(pool.used(), ValuePool::rounded(bytes));
    std::memset(first.data, 1, bytes);
    std::byte* place = first.data;
    pool.drop(first);
    EXPECT_EQ(pool.used(), 0u);
    Value second = pool.take(bytes);
    EXPECT_EQ(second.data, place) << bytes;
    pool.drop(second);
  }
}

TEST(ValuePool, AValueLivesAsLongAsItsLastReference) {
  HostFrameMemory memory;
  ValuePool pool(memory);
  Value value = pool.take(100);
  Value other = pool.share(value);
  pool.drop(value);
  EXPECT_EQ(value.data, nullptr);
  EXPECT_EQ(pool.used(), ValuePool::rounded(100));
  Object list;
  list.elements.push_back({other, {25}});
  Value object = pool.make(std::move(list));
  Value copy = pool.share(object);
  pool.drop(object);
  EXPECT_EQ(pool.used(), ValuePool::rounded(100));
  pool.drop(copy);
  EXPECT_EQ(pool.used(), 0u);
}

TEST(ValuePool, WhatLastsTheCallIsNotCounted) {
  HostFrameMemory memory;
  ValuePool pool(memory);
  std::byte bytes[8];
  Value lent{bytes, pool.whole_call()};
  Value copy = pool.share(lent);
  pool.drop(lent);
  pool.drop(copy);
  EXPECT_EQ(pool.used(), 0u);
}

TEST(FrameStack, WhatIsTakenStaysInPlaceUntilItIsReleased) {
  HostFrameMemory memory;
  FrameStack stack(memory);
  std::byte* first = stack.take(100);
  const FrameStack::Mark mark = stack.mark();
  std::byte* second = stack.take(1'000'000);
  std::memset(second, 2, 1'000'000);
  std::memset(first, 1, 100);
  EXPECT_EQ(second[999'999], std::byte{2});
  stack.release(mark);
  EXPECT_EQ(stack.taken(), 128u);
  stack.clear();
  EXPECT_EQ(stack.taken(), 0u);
  // One chunk holds now what took two.
  std::byte* again = stack.take(100);
  EXPECT_EQ(stack.take(1'000'000), again + 128);
}

}  // namespace
}  // namespace anydim::runtime
