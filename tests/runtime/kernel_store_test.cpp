#include "runtime/kernel_store.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "ir/error.h"
#include "runtime/cpu_device.h"
#include "tests/runtime/programs.h"
#include "tests/runtime/temporary_folder.h"

namespace anydim::runtime {
namespace {

class KernelStoreTest : public testing::Test {
 protected:
  std::unique_ptr<KernelStore> store(const std::shared_ptr<test::FakeBackend>& backend) {
    return std::make_unique<KernelStore>(program_, std::vector<bool>(), backend, *device_, &cache_,
                                         pool_, Warning());
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
  program_.kernels[1].table.entries.insert(program_.kernels[1].table.entries.begin(),
                                           {{{{0, 8, 1}}}, {"tiny", {}}, 0});
  const auto backend = test::scale_backend();
  WorkerPool alone(1);
  const auto kernels = std::make_unique<KernelStore>(program_, std::vector<bool>(), backend,
                                                     *device_, &cache_, alone, Warning());
  kernels->load(false);
  kernels->tables()->want(1, 0);
  std::vector<bool> first_was_there;
  backend->on_compile(
      [&] { first_was_there.push_back(kernels->tables()->kernels[1][0] != nullptr); });
  kernels->complete();
  EXPECT_EQ(first_was_there, (std::vector<bool>{false, true}));
}

TEST_F(KernelStoreTest, GeneralKernelThatDoesNotCompileIsAnError) {
  const auto backend = test::scale_backend();
  backend->refuse("plain");
  const auto kernels = store(backend);
  EXPECT_THROW(kernels->load(true), Error);
}

// Tables of the two kernels of the program, "scale" and "copy".
std::vector<ir::DispatchTable> tables_of(std::vector<ir::DispatchTable::Entry> scale) {
  const ir::DispatchTable::Entry general{
      {{{0, ir::default_symbol_maximum, 1}}}, {"plain", {}}, 1e-6};
  return {{std::move(scale)}, {{general}}};
}

ir::DispatchTable::Entry row(std::int64_t high, const std::string& schedule,
                             std::optional<ir::Bucket> kernel = {}) {
  return {{{{0, high, 1}}}, {schedule, {}}, 0, std::move(kernel)};
}

TEST_F(KernelStoreTest, RowsThatAreCompiledForTheSameShapesShareTheirCode) {
  const ir::Bucket everything{{{0, ir::default_symbol_maximum, 1}}};
  program_.kernels[0].table.entries = {row(4, "fast", everything), row(8, "small", everything),
                                       row(16, "fast", everything),
                                       row(ir::default_symbol_maximum, "small")};
  const auto backend = test::scale_backend();
  const auto kernels = store(backend);
  kernels->load(false);
  kernels->complete();
  EXPECT_EQ(backend->compiled(), 3);
  EXPECT_EQ(kernels->progress().entries, 3);
  const auto& loaded = kernels->tables()->kernels[0];
  EXPECT_NE(loaded[0], nullptr);
  EXPECT_EQ(loaded[0], loaded[2]);
  EXPECT_EQ(loaded[1], loaded[3]);
  EXPECT_NE(loaded[0], loaded[1]);
}

TEST_F(KernelStoreTest, RetunedTablesServeAtOnce) {
  const auto backend = test::scale_backend();
  const auto kernels = store(backend);
  kernels->load(false);
  kernels->complete();
  const auto before = kernels->tables();
  const std::uint64_t version = kernels->version();
  kernels->retune(
      tables_of({row(16, "small"), row(64, "middle"), row(ir::default_symbol_maximum, "other")}));
  EXPECT_NE(kernels->version(), version);
  const auto after = kernels->tables();
  EXPECT_EQ(after->kernels[0][0], before->kernels[0][0]) << "what both name stays";
  EXPECT_EQ(after->kernels[0][1], nullptr);
  EXPECT_EQ(after->kernels[0][2], before->kernels[0][1])
      << "the general kernel of before stands in";
  EXPECT_EQ(after->kernels[1][0], before->kernels[1][0]);
  EXPECT_EQ(backend->compiled(), 3) << "nobody waits for a compiler";
  EXPECT_EQ(kernels->progress().pending, 2);
  kernels->complete();
  EXPECT_EQ(backend->compiled(), 5);
  EXPECT_NE(kernels->tables()->kernels[0][1], nullptr);
  EXPECT_NE(kernels->tables()->kernels[0][2], before->kernels[0][1]);
  EXPECT_EQ(before->kernels[0].size(), 2u) << "running calls keep what they began with";
}

TEST_F(KernelStoreTest, RetunedTablesComeInTheBackground) {
  const auto backend = test::scale_backend();
  const auto kernels = store(backend);
  kernels->load(true);
  for (int turn = 0; turn < 20; ++turn) {
    kernels->retune(tables_of(
        {row(16, "schedule" + std::to_string(turn)), row(ir::default_symbol_maximum, "plain")}));
    if (turn % 5 == 0) kernels->complete();
  }
  while (kernels->progress().pending > 0) std::this_thread::yield();
  EXPECT_NE(kernels->tables()->kernels[0][0], nullptr);
  EXPECT_EQ(kernels->tables()->entry(0, 0).schedule.name, "schedule19");
}

TEST_F(KernelStoreTest, ANewGeneralKernelThatDoesNotCompileLeavesTheOldOne) {
  const auto backend = test::scale_backend();
  const auto kernels = store(backend);
  kernels->load(false);
  backend->refuse("broken");
  const auto before = kernels->tables();
  kernels->retune(tables_of({row(ir::default_symbol_maximum, "broken")}));
  kernels->complete();
  EXPECT_EQ(kernels->progress().failed, 1);
  EXPECT_EQ(kernels->tables()->kernels[0][0], before->kernels[0][1]);
  // And back: what was never replaced needs no compiler.
  const int compiled = backend->compiled();
  kernels->retune(tables_of({row(ir::default_symbol_maximum, "plain")}));
  kernels->complete();
  EXPECT_EQ(backend->compiled(), compiled);
}

TEST_F(KernelStoreTest, ClosingWaitsForOneKernelOnly) {
  const auto backend = test::scale_backend();
  auto kernels = store(backend);
  kernels->load(true);
  kernels.reset();
  EXPECT_LE(backend->compiled(), 3);
}

TEST_F(KernelStoreTest, ReplacedCodeIsFreedWhenItsUsersGiveItBack) {
  const auto backend = test::scale_backend();
  const auto kernels = store(backend);
  kernels->load(true);
  kernels->complete();
  auto used = kernels->tables();
  const std::weak_ptr<const LoadedKernel> replaced = used->kernels[0][0];
  std::vector<ir::DispatchTable> tables = used->dispatch->tables;
  tables[0].entries.erase(tables[0].entries.begin());
  kernels->retune(std::move(tables));
  EXPECT_FALSE(replaced.expired()) << "a call may still run it";
  kernels->give_back(std::move(used));
  while (!replaced.expired()) std::this_thread::yield();
}

}  // namespace
}  // namespace anydim::runtime
