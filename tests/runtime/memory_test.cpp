#include "runtime/memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "ir/error.h"
#include "tests/runtime/temporary_folder.h"

namespace anydim::runtime {
namespace {

TEST(MemoryBlock, IsAlignedAndWritable) {
  for (const std::size_t bytes : {0UL, 1UL, 4096UL, 5'000'000UL}) {
    const MemoryBlock block(bytes);
    EXPECT_GE(block.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % (bytes > 4'000'000 ? 2 << 20 : 64),
              0u);
    std::memset(block.data(), 1, block.bytes());
  }
}

TEST(MemoryBlock, MoreThanThereIsIsRefused) {
  for (const std::size_t bytes : {std::numeric_limits<std::size_t>::max(), std::size_t{1} << 60}) {
    try {
      const MemoryBlock block(bytes);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Resource);
    }
  }
}

TEST(GrowingMemory, GrowsToTheLargestAndNoFurther) {
  GrowingMemory memory;
  const std::byte* large = memory.reserve(100'000);
  const std::size_t bytes = memory.bytes();
  EXPECT_EQ(memory.reserve(10), large);
  EXPECT_EQ(memory.reserve(100'000), large);
  EXPECT_EQ(memory.bytes(), bytes);
  EXPECT_THROW(memory.reserve(std::size_t{1} << 60), Error);
  EXPECT_NE(memory.reserve(10), nullptr);
}

TEST(BlockPool, KeepsNoMoreThanAsked) {
  BlockPool pool(1);
  auto a = pool.take(100), b = pool.take(10'000);
  const std::byte* large = b.get();
  a.reset();
  b.reset();
  EXPECT_EQ(pool.take(50).get(), large) << "the larger block stays";
}

TEST(ReleaseFilePages, LosesNothing) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "weights").string();
  constexpr std::size_t bytes = 64 * 1024;
  std::ofstream(path, std::ios::binary) << std::string(bytes, 'w');
  const int file = open(path.c_str(), O_RDONLY);
  auto* mapped = static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0));
  close(file);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto resident = [&] {
    std::vector<unsigned char> pages(bytes / 4096);
    std::size_t held = 0;
    std::ifstream map("/proc/self/smaps");
    std::string word;
    // The mapping's own account: "Rss:" of the entry that starts at its address.
    char address[32];
    std::snprintf(address, sizeof address, "%lx-", reinterpret_cast<unsigned long>(mapped));
    bool ours = false;
    while (map >> word) {
      if (word.find(address) == 0) ours = true;
      if (ours && word == "Rss:") {
        map >> held;
        return held;
      }
    }
    return held;
  };
  for (std::size_t i = 0; i < bytes; i += 4096) ASSERT_EQ(mapped[i], std::byte{'w'});
  EXPECT_GT(resident(), 0u);
  release_file_pages(mapped, bytes);
  EXPECT_EQ(resident(), 0u);
  EXPECT_EQ(mapped[5000], std::byte{'w'});
  munmap(mapped, bytes);

  std::vector<std::byte> ordinary(1 << 20, std::byte{5});
  release_file_pages(ordinary.data(), ordinary.size());
  EXPECT_EQ(ordinary, std::vector<std::byte>(1 << 20, std::byte{5}));
}

}  // namespace
}  // namespace anydim::runtime
