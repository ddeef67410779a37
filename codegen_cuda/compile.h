// From CUDA C++ to a kernel: NVRTC, and what its report says of it.
#pragma once

#include <string>

#include "codegen_cuda/kernel_kind.h"
#include "codegen_cuda/nvrtc.h"

namespace anydim::codegen_cuda {

// What the assembler's report (--ptxas-options=-v) says, the most of any entry; code_bytes and
// instructions stay 0. Remarks are those on performance (C75xx): warpgroup products were
// serialised, register reallocation ignored.
ir::KernelResources resources_in(const std::string& log);
// Throws Error{Internal} where the source does not compile. `name` is for messages.
ir::CompiledKernel compile_emitted(const Nvrtc& nvrtc, const CudaTarget& target, CudaOutput output,
                                   const EmittedKernel& emitted, const std::string& name);

}  // namespace anydim::codegen_cuda
