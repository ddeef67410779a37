// Kernels that wait run on a machine only after their checked forms have.
#include "runtime/kernel_trials.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "ir/error.h"
#include "runtime/context.h"
#include "runtime/cuda_device.h"
#include "tests/runtime/programs.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/forwarding_backend.h"
#include "tests/support/host_kernels_gpu.h"
#include "tests/support/sanitizers.h"

namespace anydim::runtime {
namespace {

using ir::Tensor;

constexpr std::int64_t shared_of_checked = 64;  // what their launches are known by

class CheckedForms : public ir::ForwardingBackend {
 public:
  explicit CheckedForms(std::shared_ptr<const ir::Backend> inner)
      : ForwardingBackend(std::move(inner)) {}
  std::string target() const override { return ForwardingBackend::target() + " checked"; }
  ir::CompiledKernel compile(const ir::Region& region, const ir::Bucket& bucket,
                             const ir::Schedule& schedule) const override {
    ++compiled;
    ir::CompiledKernel kernel = ForwardingBackend::compile(region, bucket, schedule);
    std::get<ir::CudaLaunches>(kernel.device).launches[0].shared_bytes = shared_of_checked;
    return kernel;
  }
  mutable std::atomic<int> compiled{0};
};

// It has two kernels, `scale` and `copy`, of which the first waits.
class WaitingKernels : public ir::ForwardingBackend {
 public:
  explicit WaitingKernels(std::shared_ptr<const ir::Backend> inner)
      : ForwardingBackend(std::move(inner)) {}
  ir::CompiledKernel compile(const ir::Region& region, const ir::Bucket& bucket,
                             const ir::Schedule& schedule) const override {
    ir::CompiledKernel kernel = ForwardingBackend::compile(region, bucket, schedule);
    std::get<ir::CudaLaunches>(kernel.device).waits = region.name == "scale";
    return kernel;
  }
  std::shared_ptr<const ir::Backend> checked_forms() const override { return own_checked_forms; }
  const std::shared_ptr<const CheckedForms> own_checked_forms =
      std::make_shared<const CheckedForms>(tests::host_kernel_backend(test::scale_backend()));
};

// Tells checked forms from others, and lets the waits of checked forms run out.
class TrialGpu : public tests::FakeGpu {
 public:
  int checked_forms = 0, others = 0;
  bool stuck = false;  // checked forms
  bool all_stuck = false;

  tests::Address allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  void free(tests::Address address) override { inner_->free(address); }
  bool write(tests::Address address, std::span<const std::byte> bytes) override {
    return inner_->write(address, bytes);
  }
  bool read(tests::Address address, std::span<std::byte> bytes) override {
    return inner_->read(address, bytes);
  }
  std::shared_ptr<void> load(const void* image) override { return inner_->load(image); }
  std::vector<std::size_t> parameters(const std::shared_ptr<void>& module,
                                      const std::string& entry) override {
    return inner_->parameters(module, entry);
  }
  tests::Result launch(const std::shared_ptr<void>& module, const std::string& entry,
                       const Shape& shape,
                       const std::vector<std::vector<std::byte>>& parameters) override {
    const bool checked_form = shape.shared_bytes == shared_of_checked;
    ++(checked_form ? checked_forms : others);
    if (!all_stuck && (!checked_form || !stuck))
      return inner_->launch(module, entry, shape, parameters);
    tests::Address slot = 0;
    std::memcpy(&slot, parameters[parameters.size() - 2].data(), sizeof slot);
    const ir::KernelError error{.check = ir::KernelError::wait_ran_out,
                                .value = std::int64_t{3} << 40 | std::int64_t{64} << 28 |
                                         std::int64_t{5} << 20 | std::int64_t{1} << 19 | 7};
    EXPECT_TRUE(inner_->write(slot, std::as_bytes(std::span(&error, 1))));
    return cuda::launch_failed;
  }
  tests::Result encode(cuda::TensorMapBytes&, int, tests::Address, std::span<const std::uint64_t>,
                       std::span<const std::uint64_t>, std::span<const unsigned>, int) override {
    return cuda::invalid_value;
  }

 private:
  std::shared_ptr<tests::FakeGpu> inner_ = tests::host_kernel_gpu();
};

class KernelTrialTest : public testing::Test {
 protected:
  // As another process with the same folder of kernels.
  struct Process {
    explicit Process(const std::shared_ptr<const WaitingKernels>& backend,
                     std::shared_ptr<const KernelCache> cache, int driver_version = 13000)
        : fake(gpu, {.driver_version = driver_version}) {
      ExecutableOptions options{.cache = std::move(cache)};
      context = cuda::DeviceContext::open(fake.driver());
      options.device = std::make_shared<cuda::CudaDevice>(context);
      auto made = std::make_shared<const Executable>(
          test::scale_program(), backend, std::make_shared<WorkerPool>(1), std::move(options));
      made->kernels().complete();
      executable = made;
    }
    std::shared_ptr<TrialGpu> gpu = std::make_shared<TrialGpu>();
    tests::FakeCuda fake;
    std::shared_ptr<cuda::DeviceContext> context;
    std::shared_ptr<const Executable> executable;
  };
  std::shared_ptr<const KernelCache> cache() const {
    return std::make_shared<const KernelCache>(
        folder_.path(), [](const std::string& warning) { ADD_FAILURE() << warning; });
  }
  void expect_scaled(Context& context, std::int64_t n) const {
    const Tensor output = context.run({test::ramp(n)})[0];
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(output.real_at(i), 6.0 * static_cast<double>(i));
  }

  test::TemporaryFolder folder_;
  static std::string message_of(Context& context) {
    try {
      context.run({test::ramp(33)});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Internal);
      return error.what();
    }
    return {};
  }
  std::shared_ptr<const WaitingKernels> backend_ =
      std::make_shared<const WaitingKernels>(tests::host_kernel_backend(test::scale_backend()));
};

TEST_F(KernelTrialTest, TheFirstRunIsTheTwinsAndIsRemembered) {
  {
    Process first(backend_, cache());
    Context context(first.executable), another(first.executable);
    for (int call = 0; call < 4; ++call) expect_scaled(context, 33);
    EXPECT_EQ(first.gpu->checked_forms, 1);
    EXPECT_EQ(first.gpu->others, 7);
    expect_scaled(another, 33);
    EXPECT_EQ(first.gpu->checked_forms, 1);
  }
  EXPECT_GE(backend_->own_checked_forms->compiled, 1);
  const int compiled = backend_->own_checked_forms->compiled;
  Process second(backend_, cache());
  Context context(second.executable);
  expect_scaled(context, 33);
  EXPECT_EQ(second.gpu->checked_forms, 0);
  EXPECT_EQ(backend_->own_checked_forms->compiled, compiled);
}

TEST_F(KernelTrialTest, AnotherDriverTriesAgainWithTheTwinsOfBefore) {
  Process first(backend_, cache());
  Context context(first.executable);
  expect_scaled(context, 33);
  const int compiled = backend_->own_checked_forms->compiled;
  Process updated(backend_, cache(), 13010);
  Context of_updated(updated.executable);
  expect_scaled(of_updated, 33);
  EXPECT_EQ(updated.gpu->checked_forms, 1);
  EXPECT_EQ(backend_->own_checked_forms->compiled, compiled);
}

TEST_F(KernelTrialTest, WithoutAFolderEveryProcessTries) {
  for (int process = 0; process < 2; ++process) {
    Process one(backend_, nullptr);
    Context context(one.executable);
    for (int call = 0; call < 3; ++call) expect_scaled(context, 33);
    EXPECT_EQ(one.gpu->checked_forms, 1);
  }
}

TEST_F(KernelTrialTest, AWaitThatRunsOutIsToldAndIsTriedAgain) {
  Process first(backend_, cache());
  first.gpu->stuck = true;
  Context context(first.executable);
  EXPECT_EQ(message_of(context),
            "running the checked form of region scale, schedule plain, s0 = 33: a wait ran out "
            "(block 3, thread 64, barrier 5, parity 1, iteration 7): CUDA_ERROR_LAUNCH_FAILED (as "
            "injected)");
  EXPECT_TRUE(message_of(context).starts_with(
      "the GPU cannot be used by this process any more, a kernel failed "
      "earlier (running the checked form"));
  EXPECT_EQ(first.gpu->others, 0);
  Process second(backend_, cache());
  Context of_second(second.executable);
  expect_scaled(of_second, 33);
  EXPECT_EQ(second.gpu->checked_forms, 1);
}

// Kernels that are checked themselves have no checked form, and later calls wait only at their end:
// by then the trap has taken the context, and no copy from the device succeeds.
TEST_F(KernelTrialTest, AWaitOfALaterCallThatRunsOutIsTold) {
  // A call that is tried, issued, replayed as a graph; the fault meets the wait at the end, or the
  // copy of results.
  for (const auto& [calls_before, at_once] : std::vector<std::pair<int, bool>>{
           {0, false}, {1, false}, {1, true}, {2, false}, {2, true}}) {
    Process process(backend_, cache());
    if (at_once) process.fake.work_at_once();
    Context context(process.executable);
    for (int call = 0; call < calls_before; ++call) expect_scaled(context, 33);
    process.gpu->all_stuck = true;
    const std::string message = message_of(context);
    EXPECT_NE(message.find("region scale, schedule plain, s0 = 33: a wait ran out (block 3, thread "
                           "64, barrier 5, parity 1, iteration 7): CUDA_ERROR_LAUNCH_FAILED"),
              std::string::npos)
        << calls_before << at_once << ": " << message;
    EXPECT_NE(message_of(context).find("a wait ran out"), std::string::npos) << "and afterwards";
  }
}

// What nothing on the device bounds: the host stops waiting, and frees nothing for which the driver
// would wait.
TEST_F(KernelTrialTest, AFirstLaunchThatHangsIsToldAndNothingWaitsForIt) {
  const tests::MeantToStay given_up;
  auto process = std::make_unique<Process>(backend_, cache());
  process->context->limit_trials(std::chrono::milliseconds(30));
  auto context = std::make_unique<Context>(process->executable);
  process->fake.hang();
  EXPECT_EQ(message_of(*context),
            "running the checked form of region scale, schedule plain, s0 = 33: it has not ended "
            "after 0.03 s; the GPU hangs until this process ends");
  EXPECT_TRUE(message_of(*context).starts_with(
      "the GPU cannot be used by this process any more, a kernel failed earlier (running the "
      "checked form"));
  context.reset();
  process->executable.reset();
  process->context.reset();
  EXPECT_EQ(process->fake.hung_calls(), 0);
}

}  // namespace
}  // namespace anydim::runtime
