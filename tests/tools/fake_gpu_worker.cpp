// `anydim worker` over the PTX interpreter: usage: fake_gpu_worker PART. Cases of the GPU campaign run through it without a GPU; its times mean nothing.
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen_cuda/backend.h"
#include "runtime/cuda_device.h"
#include "tests/support/ptx_gpu.h"
#include "tools/worker_cases.h"

namespace anydim {
namespace {

int work(const char* part) {
  codegen_cuda::CudaOptions cuda;
  cuda.target = codegen_cuda::target_named(part).value();
  cuda.target.multiprocessors = 2;
  cuda.output = codegen_cuda::CudaOutput::Ptx;
  ptx::MachineOptions machine;
  machine.architecture = cuda.target.architecture;
  const auto gpu = std::make_shared<tests::PtxGpu>(machine);
  const tests::FakeCuda fake(gpu, {.capability = cuda.target.capability(), .shared_per_block = cuda.target.shared_per_block});
  const auto device = std::make_shared<runtime::cuda::CudaDevice>(runtime::cuda::DeviceContext::open(fake.driver()));
  CompileOptions options;
  options.threads = 1;
  options.keep_kernels = false;
  tools::CaseRunner runner(options,
                           [&](bool checked) {
                             cuda.checked = checked;
                             return CompileTarget{codegen_cuda::make_cuda_backend(cuda), device};
                           },
                           {cuda.target.architecture, RawCode::Ptx});
  try {
    tools::run_worker(runner, std::cin);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n%s", error.what(), gpu->findings().c_str());
    return static_cast<int>(error.kind());
  }
}

}  // namespace
}  // namespace anydim

int main(int argc, char** argv) { return argc == 2 ? anydim::work(argv[1]) : 2; }
