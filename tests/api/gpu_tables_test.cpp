// Tables that were predicted for a part are found by that part, whatever its driver calls it.
#include <gtest/gtest.h>

#include "api/anydim.h"
#include "api/planned.h"
#include "api/tuning.h"
#include "runtime/cuda_device.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/host_kernels_gpu.h"

namespace anydim {
namespace {

ir::Module product() {
  return ir::parse(R"(
fn @main(%x: Tensor[(n, 64), f32], %w: Tensor[(64, 32), f32]) where n in [1, 512] {
  %y = matmul(%x, %w)
  return %y
})");
}

class GpuTables : public testing::Test {
 protected:
  CompileOptions options(int threads) {
    return {.device = DeviceKind::Cuda,
            .threads = threads,
            .database = folder_.path() / "tuned.db",
            .warn = [this](const std::string& warning) { warnings_.push_back(warning); }};
  }
  // As `tune --gpu PART` stores one.
  void predict(std::string_view part) {
    const CompileTarget target = planned_gpu(part, options(4));
    tuner::Database database(folder_.path() / "tuned.db", tuner::Database::Access::Write);
    const ir::Program program = program_for(target, product(), {.device = DeviceKind::Cuda});
    const ir::Program::Kernel& kernel = program.kernels.at(0);
    const ir::Bucket whole = kernel.table.entries.back().bucket;
    const ir::Schedule last = target.backend->candidates(kernel.region, whole).back();
    const tuner::ChosenTable chosen{kernel.region.identity,
                                    {{{whole, whole, last, 1e-6, false}, 0}}};
    database.store_run(tuning_environment(target, options(4)), {.model = "m", .distribution = "d"},
                       std::span(&chosen, 1));
  }
  // Who chose the table's rows on a GPU that says so of itself.
  ir::EntryOrigin chosen_on(tests::FakeCudaOptions fake_options) {
    const tests::FakeCuda fake(tests::host_kernel_gpu(), fake_options);
    const auto device = std::make_shared<runtime::cuda::CudaDevice>(
        runtime::cuda::DeviceContext::open(fake.driver()));
    const CompileTarget target = gpu_target(device, options(2));
    return program_for(target, product(), options(2)).kernels.at(0).table.entries.at(0).origin;
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> warnings_;
};

// What a driver says of an H200 (its name is "Fake GPU").
constexpr tests::FakeCudaOptions h200{.capability = 90,
                                      .multiprocessors = 132,
                                      .memory_bytes = 150'113'746'944,
                                      .shared_per_block = 232448};

TEST_F(GpuTables, APartFindsWhatWasPredictedForIt) {
  predict("h200");
  EXPECT_EQ(chosen_on(h200), ir::EntryOrigin::TunedPredicted);
  tests::FakeCudaOptions newer = h200;
  newer.driver_version = 13020;
  newer.memory_bytes += 500'000'000;
  EXPECT_EQ(chosen_on(newer), ir::EntryOrigin::TunedPredicted);
  EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

TEST_F(GpuTables, AnotherPartDoesNot) {
  predict("h200");
  tests::FakeCudaOptions less_memory = h200, fewer_multiprocessors = h200;
  less_memory.memory_bytes = 85'029'158'912;  // an H100
  fewer_multiprocessors.multiprocessors = 114;
  EXPECT_EQ(chosen_on(less_memory), ir::EntryOrigin::CostModel);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("has nothing for GPU sm_90a of 132 multiprocessors and 80 GB (f32)"),
            std::string::npos)
      << warnings_[0];
  EXPECT_NE(warnings_[0].find("the nearest that it has is for device GPU sm_90a of 132 "
                              "multiprocessors and 141 GB, here GPU sm_90a of 132 multiprocessors "
                              "and 80 GB"),
            std::string::npos)
      << warnings_[0];
  EXPECT_EQ(chosen_on(fewer_multiprocessors), ir::EntryOrigin::CostModel);
  predict("h100");
  EXPECT_EQ(chosen_on(less_memory), ir::EntryOrigin::TunedPredicted);
}

}  // namespace
}  // namespace anydim
