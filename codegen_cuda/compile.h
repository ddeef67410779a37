// From CUDA C++ to a kernel: NVRTC, and what its report says of registers, spills and memory.
#pragma once

#include <string>

#include "codegen_cuda/kernel_kind.h"
#include "codegen_cuda/nvrtc.h"

namespace anydim::codegen_cuda {

// What the assembler's report (--ptxas-options=-v) says, the most of any entry; code_bytes and
// instructions stay 0.
ir::KernelResources resources_in(const std::string& log);
// Lines of the report that no kernel may have: spilled registers, and remarks (C75xx) that
// warpgroup products were serialised or register reallocation ignored. Empty where all is well.
std::string faults_in(const std::string& log);

// Throws Error{Internal} where the source does not compile or the report holds a fault. `name` is
// for messages.
ir::CompiledKernel compile_emitted(const Nvrtc& nvrtc, const CudaTarget& target, CudaOutput output,
                                   const EmittedKernel& emitted, const std::string& name);

}  // namespace anydim::codegen_cuda
