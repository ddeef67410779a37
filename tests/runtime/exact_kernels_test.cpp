// Kernels for single shapes: nobody waits for them, and they take bounded memory.
#include "runtime/exact_kernels.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/cpu_device.h"
#include "tests/runtime/programs.h"

namespace anydim::runtime {
namespace {

class ExactKernelsTest : public testing::Test {
 protected:
  struct Kernels : ExactKernels {
    Kernels(ExactKernelsTest& test, std::int64_t most_bytes)
        : ExactKernels(test.program_, {true, false}, test.maker_, queue, 1, most_bytes),
          pool(test.pool_) {
      queue.start();
    }
    void complete() { queue.complete(pool); }
    WorkerPool& pool;
    BackgroundQueue queue{Warning(), {}};
  };
  std::unique_ptr<Kernels> kernels(std::int64_t most_bytes = ExactKernels::most_bytes) {
    return std::make_unique<Kernels>(*this, most_bytes);
  }
  static bool has(ExactKernels& kernels, std::int64_t key) {
    const ir::DispatchTable::Entry untuned;
    return kernels.find(0, std::vector{key},
                        [&]() -> const ir::DispatchTable::Entry& { return untuned; }) != nullptr;
  }

  ir::Program program_ = test::scale_program();
  std::shared_ptr<test::FakeBackend> backend_ = test::scale_backend();
  std::shared_ptr<Device> device_ = make_cpu_device();
  KernelMaker maker_{backend_, *device_, nullptr};
  WorkerPool pool_{2};
};

TEST_F(ExactKernelsTest, CoversWhatItWasMadeFor) {
  const auto exact = kernels();
  EXPECT_TRUE(exact->covers(0));
  EXPECT_FALSE(exact->covers(1));
}

TEST_F(ExactKernelsTest, AFirstSeenShapeDoesNotWait) {
  std::mutex mutex;
  std::condition_variable changed;
  bool released = false;
  backend_->on_compile([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return released; });
  });
  const auto exact = kernels();
  // The compiler stands still, and yet every call has its answer.
  for (std::int64_t key = 1; key <= 20; ++key) EXPECT_FALSE(has(*exact, key));
  EXPECT_FALSE(has(*exact, 1));
  {
    const std::lock_guard lock(mutex);
    released = true;
  }
  changed.notify_all();
  exact->complete();
  for (std::int64_t key = 1; key <= 20; ++key) EXPECT_TRUE(has(*exact, key));
  EXPECT_EQ(backend_->compiled(), 20);
}

TEST_F(ExactKernelsTest, WhatATuningDatabaseChoseForTheShapeIsCompiled) {
  const auto exact = kernels();
  ir::DispatchTable::Entry chosen;
  chosen.schedule = {.name = "tuned", .fields = {}};
  chosen.estimated_seconds = 3e-6;
  chosen.origin = ir::EntryOrigin::TunedMeasured;
  int asked = 0;
  const auto tuned = [&]() -> const ir::DispatchTable::Entry& {
    ++asked;
    return chosen;
  };
  EXPECT_EQ(exact->find(0, std::vector<std::int64_t>{7}, tuned), nullptr);
  exact->complete();
  const auto kernel = exact->find(0, std::vector<std::int64_t>{7}, tuned);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(asked, 1) << "only when the kernel is asked for first";
  EXPECT_EQ(kernel->entry.schedule, chosen.schedule);
  EXPECT_EQ(kernel->entry.estimated_seconds, chosen.estimated_seconds);
  EXPECT_EQ(kernel->entry.origin, ir::EntryOrigin::TunedMeasured);
  EXPECT_EQ(kernel->entry.bucket.intervals[0].low, 7);
  EXPECT_EQ(kernel->entry.bucket.intervals[0].high, 7);
}

TEST_F(ExactKernelsTest, WhatIsForgottenIsMadeAnewOfWhatIsLoaded) {
  const auto exact = kernels();
  const ir::DispatchTable::Entry untuned;
  const auto find = [&] {
    return exact->find(0, std::vector<std::int64_t>{7},
                       [&]() -> const ir::DispatchTable::Entry& { return untuned; });
  };
  find();
  exact->complete();
  const auto before = find();
  ASSERT_NE(before, nullptr);
  exact->forget();
  EXPECT_EQ(exact->code_bytes(), 0);
  EXPECT_TRUE(exact->list().empty());
  EXPECT_EQ(find(), nullptr);
  exact->complete();
  ASSERT_NE(find(), nullptr);
  EXPECT_EQ(find()->loaded, before->loaded);
  EXPECT_EQ(backend_->compiled(), 1);
}

TEST_F(ExactKernelsTest, ShapesThatComeLaterAreFoundWithoutBeingWaitedFor) {
  const auto exact = kernels();
  for (std::int64_t key = 1; key <= 5; ++key) {
    EXPECT_FALSE(has(*exact, key));
    while (!has(*exact, key)) std::this_thread::yield();
  }
}

TEST_F(ExactKernelsTest, TheLeastRecentlyUsedGoesByNumber) {
  const auto exact = kernels();
  const auto most = static_cast<std::int64_t>(ExactKernels::most);
  for (std::int64_t key = 1; key <= most; ++key) has(*exact, key);
  exact->complete();
  EXPECT_EQ(exact->list().size(), ExactKernels::most);
  EXPECT_TRUE(has(*exact, 1));
  has(*exact, most + 1);
  exact->complete();
  EXPECT_EQ(exact->list().size(), ExactKernels::most);
  EXPECT_TRUE(has(*exact, 1)) << "it was used after the others";
  EXPECT_FALSE(has(*exact, 2));
}

TEST_F(ExactKernelsTest, TheLeastRecentlyUsedGoesByBytes) {
  const auto exact = kernels(40);  // a kernel of the fake backend has 12 bytes
  for (std::int64_t key = 1; key <= 3; ++key) {
    has(*exact, key);
    exact->complete();
  }
  EXPECT_EQ(exact->code_bytes(), 36);
  EXPECT_TRUE(has(*exact, 1));
  has(*exact, 4);
  exact->complete();
  EXPECT_EQ(exact->code_bytes(), 36);
  EXPECT_TRUE(has(*exact, 1));
  EXPECT_TRUE(has(*exact, 4));
  EXPECT_FALSE(has(*exact, 2));
}

TEST_F(ExactKernelsTest, MemoryStaysBoundedUnderRandomShapes) {
  const auto exact = kernels(600);
  for (std::int64_t turn = 0; turn < 3000; ++turn) {
    has(*exact, 1 + turn * 7919 % 1000);
    ASSERT_LE(exact->code_bytes(), 600);
    ASSERT_LE(exact->list().size(), ExactKernels::most);
  }
  exact->complete();
  EXPECT_LE(exact->code_bytes(), 600);
  EXPECT_GT(exact->list().size(), 0U);
}

TEST_F(ExactKernelsTest, AShapeThatDoesNotCompileIsServedByTheGeneralKernel) {
  backend_->refuse("plain");
  const auto exact = kernels();
  has(*exact, 5);
  exact->complete();
  EXPECT_FALSE(has(*exact, 5));
  EXPECT_EQ(exact->code_bytes(), 0);
}

}  // namespace
}  // namespace anydim::runtime
