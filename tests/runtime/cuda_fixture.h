// Programs made by hand on runtime's CUDA path, over a driver for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "ir/error.h"
#include "runtime/context.h"
#include "runtime/cuda_device.h"
#include "tests/runtime/programs.h"
#include "tests/support/host_kernels_gpu.h"

namespace anydim::test {

class CudaTest : public testing::Test {
 protected:
  explicit CudaTest(tests::FakeCudaOptions options = {})
      : fake_(tests::host_kernel_gpu(), options) {}

  const std::shared_ptr<runtime::cuda::CudaDevice>& device() {
    if (device_ == nullptr)
      device_ = std::make_shared<runtime::cuda::CudaDevice>(
          runtime::cuda::DeviceContext::open(fake_.driver()));
    return device_;
  }
  std::shared_ptr<const runtime::Executable> make(ir::Program program,
                                                  std::shared_ptr<FakeBackend> backend,
                                                  runtime::ExecutableOptions options = {}) {
    options.device = device();
    return std::make_shared<const runtime::Executable>(
        std::move(program), tests::host_kernel_backend(std::move(backend)),
        std::make_shared<runtime::WorkerPool>(1), std::move(options));
  }
  std::shared_ptr<const runtime::Executable> scale(runtime::ExecutableOptions options = {}) {
    auto made = make(scale_program(), scale_backend(), std::move(options));
    made->kernels().complete();
    return made;
  }
  int calls(const std::string& function) const { return fake_.calls(function); }

  tests::FakeCuda fake_;
  std::shared_ptr<runtime::cuda::CudaDevice> device_;
};

inline std::string failure(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline void expect_scaled(const ir::Tensor& output, std::int64_t elements) {
  ASSERT_EQ(output.dims(), std::vector<std::int64_t>{elements});
  for (std::int64_t i = 0; i < elements; ++i)
    ASSERT_EQ(output.real_at(i), 6.0 * static_cast<double>(i));
}

}  // namespace anydim::test
