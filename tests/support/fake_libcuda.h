// The fake GPU of this process (fake_libcuda.cpp), for libraries that work on its streams.
#pragma once

#include "tests/support/fake_cuda_driver.h"

namespace anydim::tests {

// Lives as long as the process: whoever opened the library may call it until the very end.
FakeCuda& process_cuda();

}  // namespace anydim::tests
