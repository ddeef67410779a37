// The CUDA code generator behind ir::Backend. It needs no GPU and no driver; kernels are compiled
// by NVRTC, which is opened when one is first needed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "codegen_cuda/kernel_kind.h"
#include "codegen_cuda/nvrtc.h"
#include "codegen_cuda/target.h"
#include "ir/backend.h"

namespace anydim::codegen_cuda {

struct CudaOptions {
  CudaTarget target;
  CudaOutput output = CudaOutput::Cubin;
  bool checked =
      false;  // the checked forms whose waits are bounded and that trap with where they stand
  std::string nvrtc_path{};  // library or its folder; empty: Nvrtc::open() looks for it
};

// Safe to share between threads. compile() throws Error{Resource} where NVRTC is missing,
// Error{Unsupported} for a region that no kernel kind computes on this device. So does everything
// that is asked about a product with row stages, which joins_rows_to_products() keeps apart.
std::unique_ptr<ir::Backend> make_cuda_backend(const CudaOptions& options);

// The code generator `backend`, one of make_cuda_backend's, for its target as `change` leaves it:
// other cost constants, other text of device functions.
std::shared_ptr<const ir::Backend> with_target(const ir::Backend& backend,
                                               const std::function<void(CudaTarget&)>& change);

// The CUDA C++ of a region's kernel and what its schedule counts on, for looking and for tests.
EmittedKernel cuda_kernel(const CudaTarget& target, const ir::Region& region,
                          const ir::Bucket& bucket, const ir::Schedule& schedule,
                          bool checked = false);

}  // namespace anydim::codegen_cuda
