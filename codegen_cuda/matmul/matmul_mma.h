// matmul_mma and matmul_tf32: products of 16-bit floats, or of f32 numbers rounded to TF32, on
// mma.sync (sm_80 and newer).
#pragma once

#include "codegen_cuda/kernel_kind.h"
#include "codegen_cuda/matmul/matmul_operands.h"
#include "codegen_cuda/matmul/matmul_schedule.h"

namespace anydim::codegen_cuda {

// What the schedule multiplies; nullopt where its kind of tensor core does not take the form.
const std::optional<TensorOperands>& mma_operands(const PlanInputs& inputs, bool tf32);

// An estimate of a thread's registers: sums, fragments, what is computed on its way to shared
// memory, and the rest.
std::int64_t mma_registers(const MmaSchedule& schedule, const TensorOperands& operands);
// Blocks that are meant to run on a multiprocessor together; the compiler is told so, and keeps to
// the registers that it leaves.
std::int64_t mma_resident_blocks(const PlanInputs& inputs, const MmaSchedule& schedule,
                                 const TensorOperands& operands);

EmittedKernel emit_mma(const PlanInputs& inputs, const ir::Bucket& bucket,
                       const ir::Schedule& schedule);

}  // namespace anydim::codegen_cuda
