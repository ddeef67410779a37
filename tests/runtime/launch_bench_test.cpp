// Launches that are watched, replaced, and tried apart from calls: on processors and on a driver
// for tests.
#include "runtime/launch_bench.h"

#include <algorithm>
#include <string>

#include "tests/runtime/cuda_fixture.h"

namespace anydim::runtime {
namespace {

using ir::DType;
using ir::Tensor;
using test::expect_scaled;

void zeros(const ir::KernelCall* call, std::int64_t begin, std::int64_t, void*) {
  if (begin == 0) std::fill_n(static_cast<float*>(call->buffers[2]), call->extents[0], 0.0F);
}

void beside(const ir::KernelCall* call, std::int64_t begin, std::int64_t, void*) {
  if (begin == 0) static_cast<float*>(call->buffers[2])[call->extents[0]] = 1;
}

class LaunchBenchTest : public test::CudaTest, public testing::WithParamInterface<bool> {
 protected:
  bool on_gpu() const { return GetParam(); }

  std::shared_ptr<const Executable> make(ir::Program program,
                                         std::shared_ptr<test::FakeBackend> backend) {
    if (on_gpu()) return CudaTest::make(std::move(program), std::move(backend));
    return std::make_shared<const Executable>(std::move(program), std::move(backend),
                                              std::make_shared<WorkerPool>(2), ExecutableOptions());
  }
  // scale_program() with kernels of the first region that do what its own does not.
  std::shared_ptr<const Executable> scale() {
    const auto backend = test::scale_backend();
    const ir::Dim tasks = ir::ceil_div(ir::Dim::symbol("s0"), 16);
    backend->add("scale zeros", {.entry = zeros, .tasks = tasks});
    backend->add("scale beside", {.entry = beside, .tasks = tasks});
    return make(test::scale_program(), backend);
  }
  static LaunchBench::Kernel kernel(const std::shared_ptr<const Executable>& executable,
                                    const std::string& schedule) {
    KernelMaker maker({executable, &executable->backend()}, executable->device(), nullptr);
    return maker.make(executable->program().kernels[0].region,
                      {.bucket = {{{0, 4096, 1}}}, .schedule = {schedule, {}}});
  }

  // A first launch of the program on memory of the bench's own.
  struct Tried {
    const ir::Code::Launch* launch = nullptr;
    std::vector<std::int64_t> extents;
    std::unique_ptr<TrialMemory> x, result;
    std::vector<void*> buffers;
    TrialLaunch ready() const { return {launch, extents, buffers}; }
  };
  static Tried first_launch(Context& context, LaunchBench& bench, const std::vector<Tensor>& call) {
    Tried tried;
    context.session().observe([&](const LaunchWork& work, std::span<void* const> buffers) {
      if (tried.launch != nullptr) return;
      tried.launch = work.launch;
      tried.extents.assign(work.extents.begin(), work.extents.end());
      tried.x = bench.allocate(4 * static_cast<std::size_t>(work.extents[0]));
      tried.x->copy_from(buffers[0]);
      tried.x->forbid_writing();
      tried.result = bench.allocate(tried.x->bytes());
      tried.buffers = {tried.x->address(), buffers[1], tried.result->address()};
    });
    context.run(call);
    context.session().observe({});
    return tried;
  }
};

TEST_P(LaunchBenchTest, ObserversFindWhatALaunchReads) {
  for (const bool fetches : {false, true}) {
    const auto executable =
        fetches ? make(test::device_fetch_program(), test::device_fetch_backend()) : scale();
    Context context(executable);
    context.run({test::ramp(33)});
    context.run({test::ramp(33)});  // from here on a GPU replays a graph
    std::vector<std::vector<float>> read;
    context.session().observe([&](const LaunchWork& work, std::span<void* const> buffers) {
      EXPECT_EQ(buffers.size(), work.launch->buffers.size());
      if (read.size() == 2) return;
      std::vector<float>& one = read.emplace_back(33);
      context.session().read(buffers[0], std::as_writable_bytes(std::span(one)));
    });
    expect_scaled(context.run({test::ramp(33)})[0], 33);
    ASSERT_EQ(read.size(), 2U);
    for (std::size_t i = 0; i < 33; ++i) {
      EXPECT_EQ(read[0][i], static_cast<float>(i));
      EXPECT_EQ(read[1][i], 6 * static_cast<float>(i)) << "what the launch before it wrote";
    }
    context.session().observe({});
    context.run({test::ramp(33)});
    EXPECT_EQ(read.size(), 2U);
  }
}

TEST_P(LaunchBenchTest, AnotherKernelRunsInALaunchesPlace) {
  const auto executable = scale();
  Context context(executable);
  for (int i = 0; i < 3; ++i) expect_scaled(context.run({test::ramp(40)})[0], 40);
  const LaunchBench::Kernel other = kernel(executable, "zeros");
  context.substitute(
      [&](const LaunchWork& work) { return work.launch->kernel == 0 ? &other : nullptr; });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(context.run({test::ramp(40)})[0].real_at(39), 0);
  context.substitute({});
  for (int i = 0; i < 3; ++i) expect_scaled(context.run({test::ramp(40)})[0], 40);
}

TEST_P(LaunchBenchTest, ALaunchRunsOnMemoryOfItsOwn) {
  const auto executable = scale();
  Context context(executable);
  const auto bench = executable->device().open_bench(*executable);
  const Tried tried = first_launch(context, *bench, {test::ramp(100)});
  ASSERT_NE(tried.launch, nullptr);
  const LaunchBench::Kernel own = kernel(executable, "plain");
  for (int i = 0; i < 2; ++i) {
    tried.result->poison();
    EXPECT_TRUE(std::isnan(tried.result->tensor(DType::F32, {100}).real_at(99)));
    EXPECT_TRUE(bench->run(own, tried.ready()));
    expect_scaled(tried.result->tensor(DType::F32, {100}), 100);
  }
  EXPECT_TRUE(tried.x->unharmed() && tried.result->unharmed());
  EXPECT_TRUE(bench->run(kernel(executable, "beside"), tried.ready()));
  EXPECT_TRUE(tried.x->unharmed());
  EXPECT_FALSE(tried.result->unharmed());
}

TEST_P(LaunchBenchTest, APassRunsEveryLaunchSoManyTimes) {
  const auto executable = scale();
  Context context(executable);
  const auto bench = executable->device().open_bench(*executable);
  const Tried one = first_launch(context, *bench, {test::ramp(100)});
  const Tried other = first_launch(context, *bench, {test::ramp(20)});
  const auto pass = bench->pass(kernel(executable, "plain"),
                                std::vector<TrialLaunch>{one.ready(), other.ready()}, 5);
  one.result->poison();
  other.result->poison();
  const std::int64_t before = fake_.kernels_run();
  pass->seconds();
  // On a GPU behind another pass, whose start nobody counts.
  if (on_gpu()) EXPECT_EQ(fake_.kernels_run() - before, 2 * 2 * 5);
  expect_scaled(one.result->tensor(DType::F32, {100}), 100);
  expect_scaled(other.result->tensor(DType::F32, {20}), 20);
  EXPECT_TRUE(one.result->unharmed() && other.result->unharmed());
}

TEST_P(LaunchBenchTest, WhatACheckReportsIsTold) {
  const auto executable = make(test::gather_program(), test::gather_backend());
  Context context(executable);
  const auto bench = executable->device().open_bench(*executable);
  Tensor index(DType::I64, {3});
  TrialLaunch launch;
  std::vector<std::int64_t> extents;
  std::unique_ptr<TrialMemory> given, result;
  std::vector<void*> buffers;
  context.session().observe([&](const LaunchWork& work, std::span<void* const> found) {
    extents.assign(work.extents.begin(), work.extents.end());
    given = bench->allocate(index.byte_size());
    result = bench->allocate(3 * sizeof(float));
    buffers = {given->address(), found[1], result->address()};
    launch = {work.launch, extents, buffers};
  });
  context.run({index});
  context.session().observe({});
  const LaunchBench::Kernel own = kernel(executable, "plain");
  // Poisoned: every index is -1.
  for (int i = 0; i < 2; ++i)
    EXPECT_NE(test::failure(ErrorKind::Inputs, [&] { bench->run(own, launch); }).find("-1"),
              std::string::npos);
}

TEST_P(LaunchBenchTest, AFaultOfTheGpuEndsIt) {
  if (!on_gpu()) return;
  const auto executable = scale();
  Context context(executable);
  const auto bench = executable->device().open_bench(*executable);
  const Tried tried = first_launch(context, *bench, {test::ramp(100)});
  const LaunchBench::Kernel own = kernel(executable, "plain");
  fake_.fault(cuda::illegal_address);
  EXPECT_NE(test::failure(ErrorKind::Internal, [&] { bench->run(own, tried.ready()); })
                .find("region scale, schedule plain"),
            std::string::npos);
  test::failure(ErrorKind::Internal, [&] { bench->run(own, tried.ready()); });
}

INSTANTIATE_TEST_SUITE_P(Devices, LaunchBenchTest, testing::Bool(),
                         [](const auto& device) { return device.param ? "Gpu" : "Cpu"; });

}  // namespace
}  // namespace anydim::runtime
