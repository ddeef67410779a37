#include "runtime/guarded_memory.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>

namespace anydim::runtime {
namespace {

TEST(GuardedMemory, SeesWritesBesideIt) {
  GuardedMemory memory(100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0);
  EXPECT_EQ(memory.data()[99], std::byte{0xff});
  EXPECT_TRUE(memory.unharmed());
  memory.data()[0] = std::byte{1};
  EXPECT_TRUE(memory.unharmed());
  memory.data()[100] = std::byte{1};
  EXPECT_FALSE(memory.unharmed());
  GuardedMemory before(64);
  before.data()[-1] = std::byte{1};
  EXPECT_FALSE(before.unharmed());
}

TEST(GuardedMemory, ForbiddenPagesEndTheProcess) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto touch = [](std::ptrdiff_t offset, bool sealed) {
    exit_on_forbidden_access();
    GuardedMemory memory(4096);
    if (sealed) memory.forbid_writing();
    *const_cast<volatile std::byte*>(memory.data() + offset) = std::byte{1};
  };
  EXPECT_EXIT(touch(4096, false), testing::ExitedWithCode(forbidden_access_exit), "");
  EXPECT_EXIT(touch(-1, false), testing::ExitedWithCode(forbidden_access_exit), "");
  EXPECT_EXIT(touch(0, true), testing::ExitedWithCode(forbidden_access_exit), "");
  EXPECT_EXIT(
      {
        exit_on_forbidden_access();
        raise(SIGSEGV);
      },
      testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace anydim::runtime
