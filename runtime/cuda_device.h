// NVIDIA GPUs through the CUDA driver, which is opened while the program runs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/cublaslt.h"
#include "runtime/cuda_context.h"
#include "runtime/device.h"

namespace anydim::runtime::cuda {

class CudaDevice : public Device {
 public:
  explicit CudaDevice(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {}

  const DeviceContext& context() const { return *context_; }
  const std::shared_ptr<DeviceContext>& shared_context() const { return context_; }

  std::shared_ptr<const DeviceKernel> load(const ir::Region& region,
                                           const ir::DispatchTable::Entry& entry,
                                           const ir::CompiledKernel& kernel,
                                           std::optional<KernelTrial> trial) override;
  std::string machine() const override;
  const NvtxTool* watching() const override;
  std::unique_ptr<ConstantStore> constants() override;
  bool has_memory() const override { return true; }
  ir::Tensor foreign(ir::DType dtype, std::vector<std::int64_t> dims, void* address,
                     std::shared_ptr<const void> owner) override;
  std::unique_ptr<DeviceSession> open_session(const Executable& executable) override;
  std::unique_ptr<LaunchBench> open_bench(const Executable& executable) override;

  // The library that carries out products; opened where the loader finds it when a kernel first
  // wants it. Throws Error{Resource}.
  std::shared_ptr<const CublasLt> library();
  void use(std::shared_ptr<const CublasLt> library);

 private:
  std::shared_ptr<DeviceContext> context_;
  std::mutex library_mutex_;
  std::shared_ptr<const CublasLt> library_;
};

// The first GPU of this machine. Throws Error{Resource} with what is missing.
std::shared_ptr<CudaDevice> open_cuda_device();

}  // namespace anydim::runtime::cuda
