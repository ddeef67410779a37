// A GPU of a named part without the part: the interpreter of PTX behind a driver, and NVRTC's PTX
// for it, run through runtime's CUDA path.
#pragma once

#include <memory>
#include <string>

#include "api/compile.h"
#include "codegen_cuda/backend.h"
#include "ir/error.h"
#include "runtime/cuda_device.h"
#include "tests/support/ptx_gpu.h"

namespace anydim::tests {

// With two multiprocessors, so that few tiles make several waves.
struct FakePart {
  explicit FakePart(const char* part) {
    cuda.target = codegen_cuda::target_named(part).value();
    cuda.target.multiprocessors = 2;
    cuda.output = codegen_cuda::CudaOutput::Ptx;
    gpu = std::make_shared<PtxGpu>(ptx::MachineOptions{.architecture = cuda.target.architecture});
    fake = std::make_unique<FakeCuda>(
        gpu, FakeCudaOptions{.capability = cuda.target.capability(),
                             .shared_per_block = cuda.target.shared_per_block});
    device = std::make_shared<runtime::cuda::CudaDevice>(
        runtime::cuda::DeviceContext::open(fake->driver()));
    target = {codegen_cuda::make_cuda_backend(cuda), device};
    options.threads = 2;
    options.keep_kernels = false;
    options.background = false;  // one general kernel a region: what every shape can fall back to
  }

  // The call's results; where it fails, the error also says what the interpreter reports.
  auto reporting(const auto& call) const {
    try {
      return call();
    } catch (const Error& error) {
      throw Error(error.kind(), std::string(error.what()) + "\n" + gpu->findings());
    }
  }

  codegen_cuda::CudaOptions cuda;
  std::shared_ptr<PtxGpu> gpu;
  std::unique_ptr<FakeCuda> fake;
  std::shared_ptr<runtime::cuda::CudaDevice> device;
  CompileTarget target;
  CompileOptions options;
};

}  // namespace anydim::tests
