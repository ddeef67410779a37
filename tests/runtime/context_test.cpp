#include "runtime/context.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <thread>

#include "ir/error.h"
#include "tests/runtime/programs.h"
#include "tests/support/sanitizers.h"

namespace anydim::runtime {
namespace {

using ir::DType;
using ir::Tensor;

std::shared_ptr<const Executable> make(ir::Program program,
                                       std::shared_ptr<test::FakeBackend> backend,
                                       ExecutableOptions options = {}, int threads = 2) {
  return std::make_shared<const Executable>(std::move(program), std::move(backend),
                                            std::make_shared<WorkerPool>(threads),
                                            std::move(options));
}

std::string failure(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

void expect_scaled(const Tensor& output, std::int64_t elements) {
  ASSERT_EQ(output.dims(), std::vector<std::int64_t>{elements});
  for (std::int64_t i = 0; i < elements; ++i)
    ASSERT_EQ(output.real_at(i), 6.0 * static_cast<double>(i));
}

TEST(Context, RunsEveryShapeWithPackedConstants) {
  const auto backend = test::scale_backend();
  Context context(make(test::scale_program(), backend));
  for (const std::int64_t n : {1, 15, 16, 17, 1000, 4096, 3})
    expect_scaled(context.run({test::ramp(n)})[0], n);
  EXPECT_EQ(backend->packed(), 1);
  EXPECT_EQ(context.executable().constant_bytes(), 4);
}

TEST(Context, EmptyInputsGiveEmptyOutputs) {
  Context context(make(test::scale_program(), test::scale_backend()));
  context.record_launches(true);
  const auto outputs = context.run({test::ramp(0)});
  EXPECT_EQ(outputs[0].dims(), std::vector<std::int64_t>{0});
  ASSERT_EQ(context.launches().size(), 2u);
  EXPECT_EQ(context.launches()[0].tasks, 0);
}

TEST(Context, DispatchesOnTheActualShape) {
  const auto executable = make(test::scale_program(), test::scale_backend());
  executable->kernels().complete();
  Context context(executable);
  context.record_launches(true);
  context.run({test::ramp(16)});
  ASSERT_EQ(context.launches().size(), 2u);
  EXPECT_EQ(context.launches()[0].met, 0);
  EXPECT_EQ(context.launches()[0].used, 0);
  EXPECT_EQ(context.launches()[0].keys, std::vector<std::int64_t>{16});
  EXPECT_EQ(*context.launches()[0].source, "mul 'Mul_1'");
  context.run({test::ramp(17)});
  EXPECT_EQ(context.launches()[0].met, 1);
  EXPECT_EQ(context.launches()[0].tasks, 2);
}

TEST(Context, GeneralKernelServesUntilTheSpecialOneIsThere) {
  const auto executable = make(test::scale_program(), test::scale_backend(), {.background = false});
  Context context(executable);
  context.record_launches(true);
  expect_scaled(context.run({test::ramp(5)})[0], 5);
  EXPECT_EQ(context.launches()[0].met, 0);
  EXPECT_EQ(context.launches()[0].used, 1);
  EXPECT_EQ(executable->kernels().progress().pending,
            2);  // the bucket's kernel and the shape program
  executable->kernels().complete();
  expect_scaled(context.run({test::ramp(5)})[0], 5);
  EXPECT_EQ(context.launches()[0].used, 0);
  EXPECT_EQ(executable->kernels().progress().pending, 0);
}

TEST(Context, BucketThatDoesNotCompileIsServedByTheGeneralKernel) {
  const auto backend = test::scale_backend();
  backend->refuse("small");
  std::vector<std::string> warnings;
  ExecutableOptions options{.background = false};
  options.warn = [&](const std::string& message) { warnings.push_back(message); };
  const auto executable = make(test::scale_program(), backend, options);
  executable->kernels().complete();
  EXPECT_EQ(executable->kernels().progress().failed, 1);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with(
      "a kernel for one bucket of scale did not compile, its general kernel serves: "))
      << warnings[0];
  Context context(executable);
  expect_scaled(context.run({test::ramp(5)})[0], 5);
}

TEST(Context, NativeShapeProgramsGiveTheSameSizes) {
  const auto backend = test::scale_backend();
  backend->add_shapes([](const std::int64_t* leaves, std::int64_t* values, std::int32_t* failed) {
    values[0] = 4 * leaves[0], values[1] = 64, values[2] = 4 * leaves[0] + 64, *failed = -1;
  });
  const auto executable = make(test::scale_program(), backend);
  executable->kernels().complete();
  EXPECT_NE(executable->kernels().tables()->shapes[0], nullptr);
  Context context(executable);
  for (const std::int64_t n : {0, 1, 100}) expect_scaled(context.run({test::ramp(n)})[0], n);
}

TEST(Context, FetchesSizesFromDataThatTheHostReads) {
  Context context(make(test::fetch_program(), test::fetch_backend()));
  const auto outputs = context.run({Tensor::of<int>(DType::I64, {2}, {3, 8})});
  ASSERT_EQ(outputs[0].dims(), std::vector<std::int64_t>{11});
  for (std::int64_t i = 0; i < 11; ++i) EXPECT_EQ(outputs[0].real_at(i), 7);
}

TEST(Context, FailedCheckNamesBothValuesAndTheContextStaysUsable) {
  Context context(make(test::fetch_program(), test::fetch_backend()));
  EXPECT_EQ(
      failure(ErrorKind::Inputs, [&] { context.run({Tensor::of<int>(DType::I64, {2}, {-3, 1})}); }),
      "reshape 'Reshape_5' (%y): dimension 0: expected at most -8, got -2");
  EXPECT_EQ(context.run({Tensor::of<int>(DType::I64, {2}, {1, 1})})[0].elements(), 2);
}

TEST(Context, OverflowingSizesAreRefused) {
  Context context(make(test::fetch_program(), test::fetch_backend()));
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(failure(ErrorKind::Inputs,
                    [&] { context.run({Tensor::of<std::int64_t>(DType::I64, {2}, {large, 1})}); }),
            "the size a + b has no 64-bit value (it overflows or divides by zero) for a = "
            "9223372036854775807, b = 1");
  EXPECT_EQ(context.run({Tensor::of<int>(DType::I64, {2}, {1, 1})})[0].elements(), 2);
}

TEST(Context, DeviceCheckNamesNodeValueAndRange) {
  Context context(make(test::gather_program(), test::gather_backend()));
  const auto good = Tensor::of<int>(DType::I64, {3}, {9, 0, 4});
  EXPECT_EQ(context.run({good})[0].real_at(0), 9);
  EXPECT_EQ(failure(ErrorKind::Inputs,
                    [&] { context.run({Tensor::of<int>(DType::I64, {3}, {1, 30522, 2})}); }),
            "gather index of '/embeddings/Gather': expected from -10 to 9, got 30522");
  EXPECT_EQ(context.run({good})[0].real_at(2), 4);
}

TEST(Context, MemoryLimitIsKeptAndTheContextStaysUsable) {
  Context context(make(test::scale_program(), test::scale_backend(), {.memory_limit = 4096}));
  EXPECT_EQ(failure(ErrorKind::Resource, [&] { context.run({test::ramp(1024)}); }),
            "this call needs at least 4160 bytes for activations, scratch and outputs, over the "
            "memory limit of 4096 bytes; give smaller inputs or raise --memory-limit");
  expect_scaled(context.run({test::ramp(64)})[0], 64);
  EXPECT_EQ(context.memory().arena, 4 * 64 + 64);
  EXPECT_EQ(context.memory().outputs, 4 * 64);
  EXPECT_EQ(context.memory().scratch, 2 * 256);
}

TEST(Context, WrongInputsAreRefused) {
  Context context(make(test::scale_program(), test::scale_backend()));
  EXPECT_NE(failure(ErrorKind::Inputs, [&] { context.run({test::ramp(4097)}); }).find("/positions"),
            std::string::npos);
  failure(ErrorKind::Inputs, [&] { context.run({}); });
  failure(ErrorKind::Inputs, [&] { context.run({Tensor(DType::I64, {3})}); });
  failure(ErrorKind::Inputs, [&] { context.run({Tensor(DType::F32, {3, 1})}); });
  expect_scaled(context.run({test::ramp(7)})[0], 7);
}

TEST(Context, OutputsBelongToTheCaller) {
  Context context(make(test::scale_program(), test::scale_backend()));
  const auto first = context.run({test::ramp(50)});
  const auto second = context.run({test::ramp(40)});
  expect_scaled(first[0], 50);
  expect_scaled(second[0], 40);
  EXPECT_NE(first[0].bytes().data(), second[0].bytes().data());
}

TEST(Context, OutputsMemoryServesTheNextCall) {
  Context context(make(test::scale_program(), test::scale_backend()));
  const std::byte* first = context.run({test::ramp(50)})[0].bytes().data();
  EXPECT_EQ(context.run({test::ramp(50)})[0].bytes().data(), first);
}

TEST(Context, OutputsOutliveTheContext) {
  std::vector<Tensor> outputs;
  {
    Context context(make(test::scale_program(), test::scale_backend()));
    outputs = context.run({test::ramp(2000)});
  }
  expect_scaled(outputs[0], 2000);
}

TEST(Context, ManyThreadsShareAnExecutableWhileItsTablesFill) {
  const auto executable = make(test::scale_program(), test::scale_backend(), {}, 3);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&executable, seed] {
      Context context(executable);
      std::mt19937 random(seed);
      for (int call = 0; call < 300; ++call) {
        const auto n = static_cast<std::int64_t>(random() % 200);
        expect_scaled(context.run({test::ramp(n)})[0], n);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::int64_t resident_pages() {
  std::int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident;
}

TEST(Context, MemoryStaysFlatUnderRandomShapes) {
  // Sanitizers keep freed memory for a while.
  if (tests::sanitized) GTEST_SKIP() << "resident memory tells nothing under a sanitizer";
  Context context(make(test::scale_program(), test::scale_backend()));
  std::mt19937 random(7);
  const Tensor largest = test::ramp(4096);
  const auto call = [&] {
    const auto n = static_cast<std::int64_t>(random() % 4097);
    context.run({Tensor(DType::F32, {n}, largest.bytes().first(static_cast<std::size_t>(4 * n)),
                        largest.owner())});
  };
  for (int i = 0; i < 50'000; ++i) call();
  const std::int64_t half = resident_pages();
  for (int i = 0; i < 50'000; ++i) call();
  EXPECT_LT(static_cast<double>(resident_pages()), 1.01 * static_cast<double>(half));
}

}  // namespace
}  // namespace anydim::runtime
