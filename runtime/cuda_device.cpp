#include "runtime/cuda_device.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/cuda_device_memory.h"
#include "runtime/cuda_kernel.h"
#include "runtime/cuda_launch_bench.h"
#include "runtime/cuda_memory.h"
#include "runtime/cuda_replayed_session.h"
#include "runtime/cuda_stepped_session.h"
#include "runtime/executable.h"
#include "runtime/nvtx.h"

namespace anydim::runtime::cuda {

std::shared_ptr<const DeviceKernel> CudaDevice::load(const ir::Region& region,
                                                     const ir::DispatchTable::Entry& entry,
                                                     const ir::CompiledKernel& kernel,
                                                     std::optional<KernelTrial> trial) {
  return std::make_shared<const CudaKernel>(context_, region, entry, kernel, std::move(trial),
                                            wants_library(kernel) ? library() : nullptr);
}

std::string CudaDevice::machine() const {
  const Properties& properties = context_->properties();
  return fmt::format("{} {} {}", properties.name, properties.capability, properties.driver_version);
}

const NvtxTool* CudaDevice::watching() const { return NvtxTool::watching(); }

std::shared_ptr<const CublasLt> CudaDevice::library() {
  const std::lock_guard lock(library_mutex_);
  if (library_ == nullptr) library_ = CublasLt::open(context_);
  return library_;
}

void CudaDevice::use(std::shared_ptr<const CublasLt> library) {
  const std::lock_guard lock(library_mutex_);
  library_ = std::move(library);
}

std::unique_ptr<ConstantStore> CudaDevice::constants() { return make_constants(context_); }

ir::Tensor CudaDevice::foreign(ir::DType dtype, std::vector<std::int64_t> dims, void* address,
                               std::shared_ptr<const void> owner) {
  return foreign_tensor(context_, dtype, std::move(dims), address, std::move(owner));
}

std::unique_ptr<DeviceSession> CudaDevice::open_session(const Executable& executable) {
  if (ReplayedSession::takes(executable.program()))
    return std::make_unique<ReplayedSession>(context_, executable);
  return std::make_unique<SteppedSession>(context_, executable);
}

std::unique_ptr<LaunchBench> CudaDevice::open_bench(const Executable& executable) {
  return make_launch_bench(context_, executable.program());
}

std::shared_ptr<CudaDevice> open_cuda_device() {
  return std::make_shared<CudaDevice>(DeviceContext::open(open_driver()));
}

}  // namespace anydim::runtime::cuda
