// What the ways to compute attention share.
#pragma once

#include "codegen_cuda/kernel_kind.h"
#include "ir/dims/symbols.h"

namespace anydim::codegen_cuda {

class AttentionKind : public KindOf<ir::AttentionForm> {
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

// Rows of one sequence within the bucket, on average where several lie end to end.
ir::Interval rows_in_bucket(const PlanInputs& inputs, const ir::Bucket& bucket);

}  // namespace anydim::codegen_cuda
