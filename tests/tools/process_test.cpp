#include "tools/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace anydim::tools {
namespace {

// One page of a file that has been cut to nothing.
const volatile char* cut_page() {
  char name[] = "/tmp/anydim-process-XXXXXX";
  const int file = mkstemp(name);
  unlink(name);
  const long page = sysconf(_SC_PAGESIZE);
  if (file < 0 || ftruncate(file, page) != 0) return nullptr;
  void* mapped = mmap(nullptr, static_cast<std::size_t>(page), PROT_READ, MAP_PRIVATE, file, 0);
  if (mapped == MAP_FAILED || ftruncate(file, 0) != 0) return nullptr;
  return static_cast<const volatile char*>(mapped);
}

TEST(Process, ACutFileIsSaidToBeOne) {
  EXPECT_EXIT(
      {
        explain_cut_files();
        const volatile char* page = cut_page();
        std::exit(page == nullptr ? 99 : *page);
      },
      testing::ExitedWithCode(4), "became shorter while it was read");
}

// Kept apart from the call before, so that each level has a frame of its own.
[[gnu::noinline]] int deep(int levels) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(levels);
  return levels == 0 ? frame[0] : deep(levels - 1) + frame[0] - frame[0];
}

TEST(Process, WorkHasItsStackWhateverTheLimitIs) {
  EXPECT_EXIT(
      {
        rlimit limit{};
        getrlimit(RLIMIT_STACK, &limit);
        limit.rlim_cur = 256 << 10;
        setrlimit(RLIMIT_STACK, &limit);
        std::exit(run_on_own_stack([] { return 7 + deep(4000); }));
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace anydim::tools
