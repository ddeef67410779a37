// A pretended GPU of a part: the interpreter of PTX behind a driver, and what compiles for it.
#pragma once

#include <memory>

#include "codegen_cuda/backend.h"
#include "runtime/cuda_device.h"
#include "tests/support/ptx_gpu.h"

namespace anydim::tests {

// With two multiprocessors, so that few tiles make several waves.
struct PretendedGpu {
  explicit PretendedGpu(const char* part) {
    cuda.target = codegen_cuda::target_named(part).value();
    cuda.target.multiprocessors = 2;
    cuda.output = codegen_cuda::CudaOutput::Ptx;
    ptx::MachineOptions machine;
    machine.architecture = cuda.target.architecture;
    gpu = std::make_shared<PtxGpu>(machine);
    fake = std::make_unique<FakeCuda>(
        gpu, FakeCudaOptions{.capability = cuda.target.capability(), .shared_per_block = cuda.target.shared_per_block});
    device = std::make_shared<runtime::cuda::CudaDevice>(runtime::cuda::DeviceContext::open(fake->driver()));
  }

  codegen_cuda::CudaOptions cuda;
  std::shared_ptr<PtxGpu> gpu;
  std::unique_ptr<FakeCuda> fake;
  std::shared_ptr<runtime::cuda::CudaDevice> device;
};

}  // namespace anydim::tests
