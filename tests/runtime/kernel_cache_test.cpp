#include "runtime/kernel_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/temporary_folder.h"

namespace anydim::runtime {
namespace {

namespace fs = std::filesystem;

ir::CompiledKernel sample(int size = 100) {
  return {.code = std::vector<std::byte>(static_cast<std::size_t>(size), std::byte{0x90}),
          .tasks = ir::Dim::symbol("s0"),
          .scratch_bytes = 64,
          .resources = {size, 0, 0}};
}

KernelKey key(std::string_view identity = "body") {
  return kernel_key("kernel", identity, "any", "plain", "target", "generator");
}

class KernelCacheTest : public testing::Test {
 protected:
  fs::path folder() const { return temporary_.path() / "above" / "cache"; }
  fs::path file(const KernelKey& of) const { return folder() / (to_string(of) + ".kernel"); }
  Warning warn() {
    return [this](const std::string& message) { warnings_.push_back(message); };
  }
  void damage(const std::function<void(std::string&)>& change) {
    KernelCache(folder(), {}).store(key(), sample());
    std::ifstream in(file(key()), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    change(bytes);
    std::ofstream(file(key()), std::ios::binary | std::ios::trunc) << bytes;
  }
  void expect_ignored(const std::string& why) {
    const KernelCache cache(folder(), warn());
    EXPECT_FALSE(cache.load(key()));
    EXPECT_FALSE(cache.load(key()));
    EXPECT_EQ(warnings_, std::vector<std::string>{"cached kernel " + file(key()).string() +
                                                  " is ignored: " + why});
    cache.store(key(), sample());
    EXPECT_TRUE(cache.load(key())) << "a new kernel takes the damaged one's place";
  }

  test::TemporaryFolder temporary_;
  std::vector<std::string> warnings_;
};

TEST_F(KernelCacheTest, KeepsKernelsInAPrivateFolder) {
  const KernelCache cache(folder(), warn());
  ASSERT_TRUE(cache.usable()) << cache.fault();
  EXPECT_FALSE(cache.load(key()));
  cache.store(key(), sample());
  const auto back = KernelCache(folder(), warn()).load(key());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->code, sample().code);
  EXPECT_EQ(cache.contents().files, 1);
  struct stat status{};
  ASSERT_EQ(stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(file(key()).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(KernelCacheTest, TruncatedFileIsAMiss) {
  damage([](std::string& bytes) { bytes.resize(bytes.size() / 2); });
  expect_ignored("it is truncated");
}

TEST_F(KernelCacheTest, EmptyFileIsAMiss) {
  damage([](std::string& bytes) { bytes.clear(); });
  expect_ignored("it is truncated");
}

TEST_F(KernelCacheTest, FlippedBitIsAMiss) {
  damage([](std::string& bytes) { bytes.back() ^= 1; });
  expect_ignored("its hash does not fit");
}

TEST_F(KernelCacheTest, DamageIsToldOnce) {
  damage([](std::string& bytes) { bytes.back() ^= 1; });
  EXPECT_FALSE(KernelCache(folder(), warn()).load(key()));
  EXPECT_FALSE(KernelCache(folder(), warn()).load(key())) << "the next process finds nothing";
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(KernelCacheTest, OtherFileIsAMiss) {
  damage([](std::string& bytes) { bytes = std::string(200, 'x'); });
  expect_ignored("it is no kernel file");
}

TEST_F(KernelCacheTest, OtherVersionIsAMiss) {
  damage([](std::string& bytes) { bytes[8] = 99; });
  expect_ignored("it has another version's form");
}

TEST_F(KernelCacheTest, KernelUnderAnotherNameIsAMiss) {
  KernelCache(folder(), {}).store(key("other"), sample());
  fs::rename(file(key("other")), file(key()));
  expect_ignored("it holds another kernel");
}

TEST_F(KernelCacheTest, FileThatOthersMayWriteIsAMiss) {
  KernelCache(folder(), {}).store(key(), sample());
  ASSERT_EQ(chmod(file(key()).c_str(), 0666), 0);
  expect_ignored("it belongs to another user or others may write it");
}

TEST_F(KernelCacheTest, FileOfAnotherUserIsAMiss) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  KernelCache(folder(), {}).store(key(), sample());
  ASSERT_EQ(chown(file(key()).c_str(), 1, 1), 0);
  expect_ignored("it belongs to another user or others may write it");
}

TEST_F(KernelCacheTest, LinkAndPipeAreMisses) {
  KernelCache(folder(), {}).store(key("elsewhere"), sample());
  fs::create_symlink(file(key("elsewhere")), file(key()));
  ASSERT_EQ(mkfifo(file(key("pipe")).c_str(), 0600), 0);
  const KernelCache cache(folder(), warn());
  EXPECT_FALSE(cache.load(key()));
  EXPECT_FALSE(cache.load(key("pipe")));
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_EQ(warnings_[0],
            "cached kernel " + file(key()).string() +
                " is ignored: it cannot be opened (Too many levels of symbolic links)");
  EXPECT_EQ(warnings_[1],
            "cached kernel " + file(key("pipe")).string() + " is ignored: it is no regular file");
}

TEST_F(KernelCacheTest, FolderThatOthersMayWriteIsNotUsed) {
  fs::create_directories(folder());
  ASSERT_EQ(chmod(folder().c_str(), 0777), 0);
  const KernelCache cache(folder(), warn());
  EXPECT_FALSE(cache.usable());
  cache.store(key(), sample());
  EXPECT_FALSE(cache.load(key()));
  EXPECT_TRUE(fs::is_empty(folder()));
  EXPECT_EQ(
      warnings_,
      std::vector<std::string>{
          "cache folder " + folder().string() +
          " can be written by other users (its mode should be 0700), so kernels are not kept"});
}

TEST_F(KernelCacheTest, FolderOfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  fs::create_directories(folder());
  ASSERT_EQ(chmod(folder().c_str(), 0700), 0);
  ASSERT_EQ(chown(folder().c_str(), 1, 1), 0);
  const KernelCache cache(folder(), warn());
  EXPECT_FALSE(cache.usable());
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"cache folder " + folder().string() +
                                     " belongs to another user, so kernels are not kept"});
}

TEST_F(KernelCacheTest, FileInTheFoldersPlaceIsNotUsed) {
  fs::create_directories(folder().parent_path());
  std::ofstream(folder()) << "not a folder";
  const KernelCache cache(folder(), warn());
  EXPECT_FALSE(cache.usable());
  EXPECT_EQ(warnings_, std::vector<std::string>{
                           "cache folder " + folder().string() +
                           " cannot be opened (Not a directory), so kernels are not kept"});
}

TEST_F(KernelCacheTest, FolderThatCannotBeMadeIsOnlyAWarning) {
  const KernelCache cache("/proc/self/no/such/folder", warn());
  EXPECT_FALSE(cache.usable());
  cache.store(key(), sample());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0],
            "cache folder /proc/self/no/such/folder cannot be made (No such file or directory), so "
            "kernels are not kept");
}

TEST_F(KernelCacheTest, FullDiskIsOnlyAWarning) {
  const KernelCache cache(folder(), warn());
  // A name that a folder takes: the write fails as on a full disk, at the last step.
  fs::create_directory(file(key()));
  std::ofstream(file(key()) / "x") << "x";
  cache.store(key(), sample());
  cache.store(key(), sample());
  EXPECT_EQ(warnings_, std::vector<std::string>{
                           "cache folder " + folder().string() +
                           " cannot be written (Is a directory), so kernels are not kept"});
  for (const auto& entry : fs::directory_iterator(folder()))
    EXPECT_FALSE(entry.path().string().ends_with(".partial"));
}

TEST_F(KernelCacheTest, TrimRemovesWhatWasUsedLongestAgo) {
  const KernelCache cache(folder(), warn(), 2500);
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 5; ++i) {
    const KernelKey one = key(std::to_string(i));
    cache.store(one, sample(900));
    fs::last_write_time(file(one), now - std::chrono::hours(10 - i));
  }
  std::ofstream(folder() / "broken-off.partial") << "x";
  fs::last_write_time(folder() / "broken-off.partial", now - std::chrono::hours(100));
  cache.trim();
  EXPECT_EQ(cache.contents().files, 2);
  EXPECT_FALSE(cache.load(key("2")));
  EXPECT_TRUE(cache.load(key("3")));
  EXPECT_TRUE(cache.load(key("4")));
  EXPECT_FALSE(fs::exists(folder() / "broken-off.partial"));
}

TEST_F(KernelCacheTest, ManyWritersOfOneKernel) {
  const KernelCache cache(folder(), warn());
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      for (int turn = 0; turn < 10; ++turn) {
        cache.store(key(), sample());
        EXPECT_TRUE(cache.load(key()));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(cache.contents().files, 1);
  EXPECT_TRUE(warnings_.empty());
}

TEST(DefaultCacheFolder, FollowsTheEnvironment) {
  setenv("XDG_CACHE_HOME", "/somewhere/else", 1);
  EXPECT_EQ(default_cache_folder(), fs::path("/somewhere/else/anydim"));
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/people/ada", 1);
  EXPECT_EQ(default_cache_folder(), fs::path("/people/ada/.cache/anydim"));
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(default_cache_folder(), fs::path());
}

}  // namespace
}  // namespace anydim::runtime
