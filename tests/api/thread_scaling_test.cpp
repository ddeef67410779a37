// What the cost model says of numbers of threads, and that results do not depend on them.
#include "api/thread_scaling.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "api/anydim.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;

constexpr const char* layers = R"(
fn @main(%x: Tensor[(n, 64), f32]) -> Tensor[(n, 64), f32]
  where n in [1, 65536] {
  %w1 = constant(f32 (64, 256) @random(1))
  %w2 = constant(f32 (256, 64) @random(2))
  %scale = constant(f32 (64) @random(3))
  %shift = constant(f32 (64) @random(4))
  %h = matmul(%x, %w1)
  %g = gelu(%h)
  %d = matmul(%g, %w2)
  %r = add(%d, %x)
  %y = layer_norm(%r, %scale, %shift) {axis = -1, epsilon = 0.00001}
  %s = softmax(%y) {axis = -1}
  return %s
}
)";

CompileOptions quiet(int threads) {
  CompileOptions options;
  options.threads = threads;
  options.keep_kernels = false;
  options.background = false;
  return options;
}

Tensor numbers(std::int64_t rows) {
  std::mt19937 random(static_cast<unsigned>(rows));
  std::normal_distribution<double> normal;
  Tensor tensor(DType::F32, {rows, 64});
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set_real(i, normal(random));
  return tensor;
}

class ThreadScaling : public testing::Test {
 protected:
  ThreadScaling() : executable_(compile(ir::parse(layers), options_)), context_(executable_) {
    executable_->kernels().complete();
    context_.record_launches(true);
  }
  std::vector<CallAtThreads> at(std::int64_t rows, const ThreadScalingOptions& scaling) {
    context_.run({numbers(rows)});
    return scale_launches(*executable_, context_.launches(), options_, scaling);
  }

  CompileOptions options_ = quiet(2);
  std::shared_ptr<const runtime::Executable> executable_;
  runtime::Context context_;
};

TEST_F(ThreadScaling, AsManyThreadsAsHereArePlannedAsTheyRun) {
  const auto calls = at(500, {.threads = {2}});
  ASSERT_EQ(calls.size(), 1u);
  ASSERT_EQ(calls[0].launches.size(), context_.launches().size());
  for (std::size_t i = 0; i < calls[0].launches.size(); ++i) {
    const runtime::LaunchRecord& record = context_.launches()[i];
    EXPECT_EQ(calls[0].launches[i].tasks, record.tasks);
    EXPECT_EQ(calls[0].launches[i].schedule,
              to_string(context_.tables().entry(record.kernel, record.used).schedule));
  }
}

TEST_F(ThreadScaling, OneThreadIsItsOwnMeasure) {
  const auto calls = at(500, {.threads = {1, 4, 64}});
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].efficiency, 1);
  double seconds = 0;
  for (const LaunchAtThreads& launch : calls[0].launches) {
    EXPECT_EQ(launch.efficiency, 1);
    seconds += launch.seconds;
  }
  EXPECT_DOUBLE_EQ(calls[0].seconds, seconds);
  EXPECT_LT(calls[1].seconds, calls[0].seconds);
  EXPECT_NEAR(calls[1].efficiency, calls[0].seconds / calls[1].seconds / 4, 1e-12);
  EXPECT_LT(calls[2].efficiency, calls[1].efficiency) << "500 rows are little for 64 threads";
}

// A call of one row has nothing to share, one of many rows has.
TEST_F(ThreadScaling, MoreRowsKeepMoreThreadsBusy) {
  const auto few = at(1, {.threads = {16}}), many = at(4096, {.threads = {16}});
  EXPECT_LT(few[0].efficiency, 0.2);
  EXPECT_GT(many[0].efficiency, 0.5);
}

TEST_F(ThreadScaling, MemoryThatAllShareIsALimit) {
  const auto free = at(65536, {.threads = {4}});
  constexpr double bandwidth = 1e7;  // bytes a second: everything waits for it that no cache holds
  const auto bound = at(65536, {.threads = {1, 4}, .memory_bandwidth = bandwidth});
  bool any = false;
  for (std::size_t i = 0; i < bound[1].launches.size(); ++i) {
    EXPECT_GE(bound[1].launches[i].seconds, free[0].launches[i].seconds);
    any = any || bound[1].launches[i].seconds > 10 * free[0].launches[i].seconds;
  }
  EXPECT_TRUE(any);
}

TEST_F(ThreadScaling, OfAGpuThereIsNothingToSay) {
  options_.device = DeviceKind::Cuda;
  try {
    at(3, {.threads = {2}});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
    EXPECT_STREQ(error.what(),
                 "the model is compiled for a GPU, whose launches do not spread over the "
                 "processor's threads: ask with --device cpu");
  }
}

TEST(ThreadsOfACall, ResultsHaveTheSameBitsOnAnyNumberOfThreadsAndBesideOtherCalls) {
  const std::vector<std::int64_t> sizes{1, 5, 16, 100, 1024};
  std::vector<Tensor> wanted;
  for (const int threads : {1, 2, 3, 5}) {
    const auto executable = compile(ir::parse(layers), quiet(threads));
    executable->kernels().complete();
    runtime::Context context(executable);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Tensor got = context.run({numbers(sizes[i])}).at(0);
      if (threads == 1) wanted.push_back(got);
      EXPECT_TRUE(got.same_bits(wanted[i])) << threads << " threads, " << sizes[i] << " rows";
    }
    std::vector<std::thread> callers;
    for (std::size_t caller = 0; caller < 2; ++caller)
      callers.emplace_back([&, caller] {
        runtime::Context own(executable);
        for (std::size_t turn = 0; turn < 2 * sizes.size(); ++turn) {
          const std::size_t i = (turn + caller) % sizes.size();
          EXPECT_TRUE(own.run({numbers(sizes[i])}).at(0).same_bits(wanted[i]))
              << threads << " threads, caller " << caller << ", " << sizes[i] << " rows";
        }
      });
    for (std::thread& caller : callers) caller.join();
  }
}

}  // namespace
}  // namespace anydim
