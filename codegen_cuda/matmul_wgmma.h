// matmul_wgmma: products of 16-bit floats by warpgroups, on tiles that tensor memory access brings (sm_90a).
#pragma once

#include "codegen_cuda/matmul_operands.h"
#include "codegen_cuda/matmul_schedule.h"
#include "codegen_cuda/skeleton.h"

namespace anydim::codegen_cuda {

struct BoxedOperands {
  ir::DType dtype = ir::DType::BF16;
  BoxedOperand left, right;
};
std::optional<BoxedOperands> boxed_operands(const PlanInputs& inputs);

EmittedKernel emit_wgmma(const PlanInputs& inputs, const ir::Bucket& bucket, const ir::Schedule& schedule, bool checked);

}  // namespace anydim::codegen_cuda
