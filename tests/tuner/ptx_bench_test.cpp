// Regions tried with the kernels that NVRTC emits, on the interpreter of PTX. Its times mean
// nothing.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "api/tuning_worker.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/fake_part.h"
#include "tuner/tolerance.h"

namespace anydim::tuner {
namespace {

constexpr const char* model_text =
    "fn @main(%x: Tensor[(n, 64), bf16]) -> Tensor[(n, 64), bf16] where n in [1, 4096] {\n"
    "  %w = constant(bf16 (64, 64) @random(1))\n  %b = constant(bf16 (64) @random(2))\n"
    "  %p = matmul(%x, %w)\n  %q = add(%p, %b)\n  %y = relu(%q)\n  return %y\n}\n";

// A turn each of three launches in a row, for the interpreter takes its time.
constexpr TrialRules quickly{.repetitions = 1, .most_repetitions = 1, .pass_seconds = 3e-6};

struct Tried {
  explicit Tried(const char* name) : part(name) {
    const std::filesystem::path file = folder.path() / "model.anydim";
    std::ofstream(file) << model_text;
    const PreparedModel prepared =
        prepare_for_tuning({.model = {.file = file.string()},
                            .options = {{"threads", "1"}, {"cache_folder", "none"}},
                            .calls = {Call{.values = {3}}, Call{.values = {70}}}},
                           [&](const CompileOptions&) { return part.target; });
    program = prepared.program;
    bench = std::make_unique<RegionBench>(program, prepared.calls);
  }
  // The first candidate of each kind of kernel, and each that has the word.
  void measure_kinds(const std::string& word) {
    const LaunchKeys& launch = bench->launches().at(1).at(0);
    const ir::Region& region =
        program->program().kernels.at(static_cast<std::size_t>(launch.kernel)).region;
    for (const ir::Schedule& schedule : program->backend().space(region, whole_range(region))) {
      if (!kinds.insert(schedule.name).second && schedule.name != word) continue;
      if (schedule.name == word && ++of_word > 3) continue;
      const Trial trial = bench->measure({launch.kernel, schedule, {{1, launch.keys}}}, quickly);
      EXPECT_EQ(name_of(trial.outcome), "ok")
          << to_string(schedule) << ": " << trial.detail << part.gpu->findings();
      EXPECT_EQ(trial.points.size(), 1U);
    }
  }

  test::TemporaryFolder folder;
  tests::FakePart part;
  std::shared_ptr<const runtime::Executable> program;
  std::unique_ptr<RegionBench> bench;
  std::set<std::string> kinds;
  int of_word = 0;
};

TEST(RegionBenchOnPtx, TriesKernelsThatWait) {
  Tried tried("h100");
  tried.measure_kinds("matmul_wgmma");
  EXPECT_TRUE(tried.kinds.contains("matmul_wgmma"));
  EXPECT_GT(tried.of_word, 0);
  EXPECT_GT(tried.part.fake->calls("encode_tensor_map"), 0);
  EXPECT_GT(tried.part.fake->launches_with(runtime::cuda::programmatic_stream_serialization), 0);
}

TEST(RegionBenchOnPtx, TellsWhatThePartAllows) {
  const Tried tried("a100");
  for (const LaunchKeys& launch : tried.bench->launches().at(1))
    EXPECT_GT(launch.roofline_seconds, 0);
  const auto limits = tried.part.target.backend->limits();
  ASSERT_TRUE(limits);
  EXPECT_GT(limits->narrow_multiply_adds, limits->multiply_adds);
  EXPECT_GT(limits->read_rate(1e6), limits->read_rate(1e9));
  EXPECT_DOUBLE_EQ(limits->read_rate(1e9), 1.4e12);
}

}  // namespace
}  // namespace anydim::tuner
