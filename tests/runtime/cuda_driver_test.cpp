#include "runtime/cuda_driver.h"

#include <gtest/gtest.h>

#include <functional>

#include "ir/error.h"
#include "runtime/cuda_device.h"
#include "tests/support/host_kernels_gpu.h"

namespace anydim::runtime {
namespace {

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Resource);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

std::string refusal(tests::FakeCudaOptions options) {
  const tests::FakeCuda fake(tests::host_kernel_gpu(), options);
  return refusal([&] { cuda::DeviceContext::open(fake.driver()); });
}

TEST(CudaDriver, AbsentLibraryIsASentence) {
  const std::string message = refusal([] { cuda::open_driver("libno_such_driver.so.1"); });
  EXPECT_TRUE(message.starts_with(
      "there is no CUDA driver here (libno_such_driver.so.1: cannot open shared object file"))
      << message;
  EXPECT_TRUE(message.ends_with("; install NVIDIA's driver 525 or newer, or use --device cpu"))
      << message;
}

TEST(CudaDriver, LibraryWithoutTheEntryPointIsTooOld) {
  EXPECT_EQ(refusal([] { cuda::open_driver("libm.so.6"); }),
            "the CUDA driver (libm.so.6) is older than version 12.0; install NVIDIA's driver 525 "
            "or newer, or use --device cpu");
}

TEST(CudaDriver, OldVersionIsRefused) {
  EXPECT_EQ(refusal({.driver_version = 11080}),
            "the CUDA driver offers version 11.8, but 12.0 is needed; install a newer driver (525 "
            "or newer)");
}

TEST(CudaDriver, NoDevice) {
  EXPECT_EQ(refusal({.devices = 0}), "the CUDA driver finds no GPU; use --device cpu");
}

TEST(CudaDriver, OldDeviceIsRefused) {
  EXPECT_EQ(
      refusal({.capability = 75}),
      "the GPU (Fake GPU) has compute capability 7.5; kernels need 8.0 or newer; use --device cpu");
}

TEST(CudaDriver, PropertiesAreThoseOfTheDevice) {
  const tests::FakeCuda fake(tests::host_kernel_gpu());
  const auto context = cuda::DeviceContext::open(fake.driver());
  EXPECT_EQ(context->properties().name, "Fake GPU");
  EXPECT_EQ(context->properties().capability, 90);
  EXPECT_EQ(context->properties().driver_version, 13000);
  EXPECT_EQ(context->properties().memory_bytes, std::int64_t{1} << 30);
  EXPECT_EQ(cuda::version_text(12040), "12.4");
}

}  // namespace
}  // namespace anydim::runtime
