// A pretended GPU of a part and what compiles for it: NVRTC's PTX, run by the interpreter through runtime's CUDA path.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "api/compile.h"
#include "codegen_cuda/backend.h"
#include "runtime/cuda_device.h"
#include "tests/support/ptx_gpu.h"

namespace anydim::tests {

// With two multiprocessors, so that few tiles make several waves.
struct PretendedPart {
  explicit PretendedPart(const char* part) {
    codegen_cuda::CudaOptions cuda;
    cuda.target = codegen_cuda::target_named(part).value();
    cuda.target.multiprocessors = 2;
    cuda.output = codegen_cuda::CudaOutput::Ptx;
    ptx::MachineOptions machine;
    machine.architecture = cuda.target.architecture;
    gpu = std::make_shared<PtxGpu>(machine);
    fake = std::make_unique<FakeCuda>(
        gpu, FakeCudaOptions{.capability = cuda.target.capability(), .shared_per_block = cuda.target.shared_per_block});
    const auto device = std::make_shared<runtime::cuda::CudaDevice>(runtime::cuda::DeviceContext::open(fake->driver()));
    target = {codegen_cuda::make_cuda_backend(cuda), device};
    options.threads = 2;
    options.keep_kernels = false;
    options.background = false;  // one general kernel a region: what every shape can fall back to
  }
  // The call's results; where it fails, an error that also says what the interpreter reports.
  template <typename Call>
  auto reporting(const Call& call) const {
    try {
      return call();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what() << "\n" << gpu->findings();
      throw;
    }
  }

  std::shared_ptr<PtxGpu> gpu;
  std::unique_ptr<FakeCuda> fake;
  CompileTarget target;
  CompileOptions options;
};

}  // namespace anydim::tests
