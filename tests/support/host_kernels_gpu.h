// A fake GPU whose kernels are CPU code: any backend for the CPU then serves the CUDA side of
// runtime, so that whole programs run through its streams, argument buffers and graphs without a
// CUDA compiler.
#pragma once

#include <memory>

#include "ir/backend.h"
#include "tests/support/fake_cuda_driver.h"

namespace anydim::tests {

// Kernels of `inner`, each as one launch with a block for each task. Their code only makes sense to
// the GPU below, in this process. `dependent`: launches say that they may start early.
std::shared_ptr<const ir::Backend> host_kernel_backend(std::shared_ptr<const ir::Backend> inner,
                                                       bool dependent = true);

// Blocks past the tasks of the actual extents, which it reads from device memory as a kernel would,
// do nothing.
std::shared_ptr<FakeGpu> host_kernel_gpu();

}  // namespace anydim::tests
