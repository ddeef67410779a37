// The ways to compute attention, preferred ones first.
#pragma once

#include <memory>

#include "codegen_cuda/kernel_kind.h"
#include "ir/dims/symbols.h"

namespace anydim::codegen_cuda {

std::unique_ptr<KernelKind> make_attention_wgmma_kind();  // sm_90a: head dims 32, 64 and 128 in
                                                          // rows that tensor memory access can take
std::unique_ptr<KernelKind>
make_attention_mma_kind();  // 16-bit floats in rows of whole 16-byte pieces
std::unique_ptr<KernelKind> make_attention_simt_kind();  // anything

// Values that an extent takes within the bucket, where it is one of the region's keys; else what
// the form's symbols say.
ir::Interval extent_in_bucket(const PlanInputs& inputs, const ir::Bucket& bucket,
                              const ir::Dim& extent);

}  // namespace anydim::codegen_cuda
