// A pretended GPU of a part and what compiles for it: NVRTC's PTX, run by the interpreter through runtime's CUDA path.
#pragma once

#include <gtest/gtest.h>

#include "api/compile.h"
#include "tests/support/pretended_gpu.h"

namespace anydim::tests {

struct PretendedPart : PretendedGpu {
  explicit PretendedPart(const char* part) : PretendedGpu(part), target{codegen_cuda::make_cuda_backend(cuda), device} {
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

  CompileTarget target;
  CompileOptions options;
};

}  // namespace anydim::tests
