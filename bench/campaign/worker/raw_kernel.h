// One hand-written CUDA kernel, for measuring what an instruction does.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/compile.h"
#include "ir/backend.h"
#include "ir/tensor.h"

namespace anydim::campaign {

// The source follows the kernel ABI of ir/backend.h: addresses of inputs, then of outputs, extents
// (none), error, workspace (none), tensor maps.
struct RawKernel {
  std::string name, source;
  ir::DeviceLaunch launch;  // with constant dims
  std::vector<ir::Tensor> inputs;
  // poisoned before the launch
  std::vector<std::pair<ir::DType, std::vector<std::int64_t>>> outputs;
};

enum class RawCode { Cubin, Ptx };

// Outputs in order. `architecture` as NVRTC names it; empty: the device's own. Throws
// Error{Resource} without GPU or NVRTC, Error{Internal} where the source does not compile or the
// kernel faults.
std::vector<ir::Tensor> run_raw_kernel(const CompileTarget& target, const RawKernel& kernel,
                                       const std::string& architecture = {},
                                       RawCode code = RawCode::Cubin);

}  // namespace anydim::campaign
