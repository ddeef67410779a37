#include "runtime/kernel_store.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>

#include "ir/error.h"
#include "runtime/cpu_device.h"
#include "tests/runtime/programs.h"
#include "tests/runtime/temporary_folder.h"

namespace anydim::runtime {
namespace {

class KernelStoreTest : public testing::Test {
 protected:
  std::unique_ptr<KernelStore> store(const std::shared_ptr<test::FakeBackend>& backend) {
    return std::make_unique<KernelStore>(program_, backend, *device_, &cache_, pool_, Warning());
  }
  static void shapes(const std::int64_t* leaves, std::int64_t* values, std::int32_t* failed) {
    values[0] = 4 * leaves[0], values[1] = 64, values[2] = 4 * leaves[0] + 64, *failed = -1;
  }

  ir::Program program_ = test::scale_program();
  std::shared_ptr<Device> device_ = make_cpu_device();
  WorkerPool pool_{2};
  test::TemporaryFolder temporary_;
  KernelCache cache_{temporary_.path() / "cache", {}};
};

TEST_F(KernelStoreTest, FirstStartCompilesOneGeneralKernelForEachRegion) {
  const auto backend = test::scale_backend();
  const auto kernels = store(backend);
  kernels->load(false);
  EXPECT_EQ(backend->compiled(), 2);
  const auto tables = kernels->tables();
  EXPECT_EQ(tables->kernels[0][0], nullptr);
  EXPECT_NE(tables->kernels[0][1], nullptr);
  EXPECT_NE(tables->kernels[1][0], nullptr);
  kernels->complete();
  EXPECT_EQ(backend->compiled(), 3);
  EXPECT_EQ(tables->kernels[0][0], nullptr) << "a set of tables never changes";
  EXPECT_NE(kernels->tables()->kernels[0][0], nullptr);
}

TEST_F(KernelStoreTest, WarmStartCompilesNothing) {
  const auto backend = test::scale_backend();
  backend->add_shapes(shapes);
  {
    const auto kernels = store(backend);
    kernels->load(true);
    kernels->complete();
    EXPECT_EQ(kernels->progress().compiled, 3);
  }
  EXPECT_EQ(cache_.contents().files, 4);
  const auto idle = test::scale_backend();
  idle->add_shapes(shapes);
  const auto kernels = store(idle);
  kernels->load(true);
  const KernelProgress progress = kernels->progress();
  EXPECT_EQ(progress.from_cache, 3);
  EXPECT_EQ(progress.pending, 0);
  EXPECT_EQ(progress.compiler_calls, 0);
  EXPECT_EQ(idle->compiled(), 0);
  EXPECT_NE(kernels->tables()->shapes[0], nullptr);
  EXPECT_EQ(kernels->tables()->kernels[0][0]->origin, KernelOrigin::Cache);
}

TEST_F(KernelStoreTest, DamagedKernelsAreCompiledAgain) {
  {
    const auto kernels = store(test::scale_backend());
    kernels->load(false);
    kernels->complete();
  }
  for (const auto& entry : std::filesystem::directory_iterator(cache_.folder())) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(70);
    file.put('!');
  }
  const auto backend = test::scale_backend();
  const auto kernels = store(backend);
  kernels->load(false);
  kernels->complete();
  EXPECT_EQ(backend->compiled(), 3);
  EXPECT_EQ(kernels->progress().from_cache, 0);
}

TEST_F(KernelStoreTest, WhatCallsAskForIsCompiledFirst) {
  program_.kernels[1].table.entries.insert(program_.kernels[1].table.entries.begin(), {{{{0, 8, 1}}}, {"tiny", {}}, 0});
  const auto backend = test::scale_backend();
  WorkerPool alone(1);
  const auto kernels = std::make_unique<KernelStore>(program_, backend, *device_, &cache_, alone, Warning());
  kernels->load(false);
  kernels->want(1, 0);
  std::vector<bool> first_was_there;
  backend->on_compile([&] { first_was_there.push_back(kernels->tables()->kernels[1][0] != nullptr); });
  kernels->complete();
  EXPECT_EQ(first_was_there, (std::vector<bool>{false, true}));
}

TEST_F(KernelStoreTest, GeneralKernelThatDoesNotCompileIsAnError) {
  const auto backend = test::scale_backend();
  backend->refuse("plain");
  const auto kernels = store(backend);
  EXPECT_THROW(kernels->load(true), Error);
}

TEST_F(KernelStoreTest, ClosingWaitsForOneKernelOnly) {
  const auto backend = test::scale_backend();
  auto kernels = store(backend);
  kernels->load(true);
  kernels.reset();
  EXPECT_LE(backend->compiled(), 3);
}

}  // namespace
}  // namespace anydim::runtime
