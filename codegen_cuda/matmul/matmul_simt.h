// matmul_simt: products in ordinary arithmetic, of any dtype, operands and strides.
#pragma once

#include "codegen_cuda/kernel_kind.h"
#include "codegen_cuda/matmul/matmul_schedule.h"

namespace anydim::codegen_cuda {

// Dynamic shared memory of a block.
std::int64_t simt_shared_bytes(const PlanInputs& inputs, const SimtSchedule& schedule);

// As of matmul_mma.h.
std::int64_t simt_registers(const PlanInputs& inputs, const SimtSchedule& schedule);
std::int64_t simt_resident_blocks(const PlanInputs& inputs, const SimtSchedule& schedule);

EmittedKernel emit_simt(const PlanInputs& inputs, const ir::Bucket& bucket,
                        const ir::Schedule& schedule);

}  // namespace anydim::codegen_cuda
