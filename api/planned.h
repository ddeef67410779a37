// GPUs to compile for, and a model compiled for one that need not be here, up to its program: what
// the tuner predicts from.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "api/compile.h"
#include "api/equal_dims.h"
#include "api/inputs.h"
#include "codegen_cuda/target.h"
#include "tuner/workload.h"

namespace anydim {

namespace runtime::cuda {
class CudaDevice;
}

// A GPU by name ("h200", "a100", "sm_90a", ...). Throws Error{CommandLine} naming the parts that
// there are.
codegen_cuda::CudaTarget planned_part(std::string_view part, const CompileOptions& options);
// The same with a code generator, and no device.
CompileTarget planned_gpu(std::string_view part, const CompileOptions& options);

// The one that a driver has opened.
CompileTarget gpu_target(std::shared_ptr<runtime::cuda::CudaDevice> device,
                         const CompileOptions& options);

struct PlannedModel {
  std::vector<InputInfo> inputs;
  EqualDims equal_dims;  // of the calls that it is planned for
  tuner::ModelShape shape;
  ir::Program program;
};
// As Model::compile would, but for constants, kernels and packed rows. Throws what passes throw.
PlannedModel plan_model(const CompileTarget& target, ir::Module module,
                        const CompileOptions& options);

}  // namespace anydim
