// Regions tried on a GPU: a driver for tests whose kernels are CPU code, some of it faulty.
#include <gtest/gtest.h>

#include <fstream>

#include "api/tuning_worker.h"
#include "ir/error.h"
#include "runtime/cuda_device.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/host_kernels_gpu.h"
#include "tests/tuner/faulty_backend.h"
#include "tuner/tolerance.h"

namespace anydim::tuner::testing {
namespace {

constexpr const char* model_text =
    "fn @main(%x: Tensor[(n, 48), f32]) -> Tensor[(n, 32), f32] where n in [1, 64] {\n"
    "  %w = constant(f32 (48, 48) @random(1))\n  %v = constant(f32 (48, 32) @random(2))\n"
    "  %h = matmul(%x, %w)\n  %p = softmax(%h) {axis = -1}\n  %y = matmul(%p, %v)\n"
    "  return %y\n}\n";

class RegionBenchOnAGpu : public ::testing::Test {
 protected:
  RegionBenchOnAGpu() {
    const std::filesystem::path file = folder_.path() / "model.anydim";
    std::ofstream(file) << model_text;
    const auto device = std::make_shared<runtime::cuda::CudaDevice>(
        runtime::cuda::DeviceContext::open(fake_.driver()));
    const PreparedModel prepared = prepare_for_tuning(
        {.model = {.file = file.string()},
         .options = {{"threads", "1"}, {"cache_folder", "none"}},
         .calls = {Call{.values = {3}}, Call{.values = {20}}}},
        [&](const CompileOptions& options) {
          CompileTarget target = make_target(options);
          target.backend =
              tests::host_kernel_backend(std::make_shared<FaultyBackend>(target.backend, 40));
          target.device = device;
          return target;
        });
    program_ = prepared.program;
    bench_ = std::make_unique<RegionBench>(program_, prepared.calls);
  }

  // Candidate number `variant` of the first launch's region, where the second call launches it.
  TrialRequest candidate(std::int64_t variant) const {
    const LaunchKeys& launch = bench_->launches().at(1).at(0);
    const ir::Region& region =
        program_->program().kernels.at(static_cast<std::size_t>(launch.kernel)).region;
    for (const ir::Schedule& schedule : program_->backend().space(region, whole_range(region)))
      if (schedule.find("variant") == variant) return {launch.kernel, schedule, {{1, launch.keys}}};
    ADD_FAILURE() << "no variant " << variant;
    return {};
  }
  Trial measure(std::int64_t variant) { return bench_->measure(candidate(variant), {}); }

  test::TemporaryFolder folder_;
  tests::FakeCuda fake_{tests::host_kernel_gpu()};
  std::shared_ptr<const runtime::Executable> program_;
  std::unique_ptr<RegionBench> bench_;
};

constexpr std::int64_t right = 0, wrong = 16, beside_a_buffer = 30;

TEST_F(RegionBenchOnAGpu, MeasuresARightCandidate) {
  bool compiled = false;
  const Trial trial = bench_->measure(candidate(right), {}, [&] { compiled = true; });
  EXPECT_EQ(name_of(trial.outcome), "ok") << trial.detail;
  EXPECT_TRUE(compiled);
  ASSERT_EQ(trial.points.size(), 1U);
  EXPECT_GE(trial.points[0].samples, TrialRules().repetitions);
  EXPECT_GT(fake_.calls("graph_launch"), 2 * TrialRules().repetitions);
}

TEST_F(RegionBenchOnAGpu, TellsFaultyCandidatesApart) {
  const Trial forgets = measure(wrong);
  EXPECT_EQ(name_of(forgets.outcome), "wrong") << forgets.detail;
  EXPECT_TRUE(forgets.points.empty());
  const Trial outside = measure(beside_a_buffer);
  EXPECT_EQ(name_of(outside.outcome), "out_of_bounds") << outside.detail;
  EXPECT_EQ(outside.detail, "it wrote beside a buffer");
}

TEST_F(RegionBenchOnAGpu, AFaultLosesTheProcess) {
  measure(right);
  fake_.fault(runtime::cuda::illegal_address, 1);
  try {
    measure(right);
    FAIL() << "a kernel faulted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal) << "which ends a measuring process (cases.h)";
    EXPECT_NE(std::string(error.what()).find("variant=0"), std::string::npos) << error.what();
  }
}

TEST_F(RegionBenchOnAGpu, TimesCandidatesInWholeCalls) {
  const std::vector<TrialRequest> requests{candidate(right)};
  const std::vector<Trial> trials = bench_->measure_in_calls(requests, {});
  ASSERT_EQ(trials.size(), 1U);
  EXPECT_EQ(name_of(trials[0].outcome), "ok") << trials[0].detail;
  ASSERT_EQ(trials[0].points.size(), 1U);
  EXPECT_GE(trials[0].points[0].samples, 6);
}

TEST_F(RegionBenchOnAGpu, CompilesWhatIsExpected) {
  const std::vector<TrialRequest> next{candidate(right), candidate(wrong), candidate(2)};
  bench_->expect(next);
  EXPECT_EQ(name_of(bench_->measure(next[0], {}).outcome), "ok");
  bench_->expect(std::vector{next[1], next[2]});
  EXPECT_EQ(name_of(bench_->measure(next[1], {}).outcome), "wrong");
  EXPECT_EQ(name_of(bench_->measure(next[2], {}).outcome), "ok");
}

}  // namespace
}  // namespace anydim::tuner::testing
