#include "runtime/cuda_device.h"

#include "runtime/cuda_kernel.h"
#include "runtime/cuda_memory.h"
#include "runtime/cuda_session.h"

namespace anydim::runtime::cuda {

std::shared_ptr<const DeviceKernel> CudaDevice::load(const ir::Region& region, const ir::DispatchTable::Entry& entry,
                                                     const ir::CompiledKernel& kernel) {
  return std::make_shared<const CudaKernel>(context_, region, entry, kernel);
}

std::unique_ptr<ConstantStore> CudaDevice::constants() { return make_constants(context_); }

std::unique_ptr<DeviceSession> CudaDevice::open_session(const Executable& executable) {
  return std::make_unique<CudaSession>(context_, executable);
}

std::shared_ptr<CudaDevice> open_cuda_device() { return std::make_shared<CudaDevice>(DeviceContext::open(open_driver())); }

}  // namespace anydim::runtime::cuda
