// matmul_mma: products of 16-bit floats on mma.sync (sm_80 and newer).
#pragma once

#include "codegen_cuda/matmul_operands.h"
#include "codegen_cuda/matmul_schedule.h"
#include "codegen_cuda/skeleton.h"

namespace anydim::codegen_cuda {

// Dynamic shared memory of a block.
std::int64_t mma_shared_bytes(const PlanInputs& inputs, const MmaSchedule& schedule);

EmittedKernel emit_mma(const PlanInputs& inputs, const ir::Bucket& bucket, const ir::Schedule& schedule);

}  // namespace anydim::codegen_cuda
