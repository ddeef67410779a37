// The ways to compute attention, preferred ones first.
#pragma once

#include <memory>

#include "codegen_cuda/kernel_kind.h"
#include "ir/dims/symbols.h"

namespace anydim::codegen_cuda {

// What all of them answer alike.
class AttentionKind : public KernelKind {
 public:
  bool takes_segments() const override { return true; }
  // The few schedules of the space that are cheapest at both ends of the bucket, the space's first
  // always among them and first.
  std::vector<ir::Schedule> candidates(const PlanInputs& inputs,
                                       const ir::Bucket& bucket) const override;
  // Where a query tile, a block or a wave fills up.
  std::vector<std::vector<std::int64_t>> key_edges(const PlanInputs& inputs) const override;

 protected:
  // Whether the score adds something for a key.
  static bool has_column(const PlanInputs& inputs);
};

// sm_90a: head dims 32, 64 and 128 in rows that tensor memory access can take
std::unique_ptr<KernelKind> make_attention_wgmma_kind();
// 16-bit floats in rows of whole 16-byte pieces
std::unique_ptr<KernelKind> make_attention_mma_kind();
std::unique_ptr<KernelKind> make_attention_simt_kind();  // anything

// Values that an extent takes within the bucket, where it is one of the region's keys; else what
// the form's symbols say.
ir::Interval extent_in_bucket(const PlanInputs& inputs, const ir::Bucket& bucket,
                              const ir::Dim& extent);

}  // namespace anydim::codegen_cuda
