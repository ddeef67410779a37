// matmul_wgmma: products of 16-bit floats by warpgroups, on tiles that tensor memory access brings
// (sm_90a).
#pragma once

#include "codegen_cuda/kernel_kind.h"
#include "codegen_cuda/matmul/matmul_operands.h"
#include "codegen_cuda/matmul/matmul_schedule.h"

namespace anydim::codegen_cuda {

// What tensor memory access can bring and store.
struct TmaOperands {
  ir::DType dtype = ir::DType::BF16;
  TmaOperand left, right;
  // The product's only result, where its elements have 2 or 4 bytes and its rows, of a known number
  // of columns and a multiple of 16 bytes, lie one after the other; else null. Of the inputs' form.
  const ir::Store* result = nullptr;
  std::int64_t result_bytes = 0;  // of an element; 0: none
};
// nullopt where one of the operands can't be brought.
std::optional<TmaOperands> tma_operands(const ir::Region& region, const ir::MatmulForm& form,
                                        const TensorOperands& operands,
                                        const ir::SymbolTable& symbols);

EmittedKernel emit_wgmma(const PlanInputs& inputs, const ir::Bucket& bucket,
                         const ir::Schedule& schedule, bool checked);

}  // namespace anydim::codegen_cuda
