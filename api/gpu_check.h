// Whether results of the GPU are right, at sizes that the reference evaluator would take minutes
// for: some elements, computed plainly on the host.
#pragma once

#include <span>

#include "api/gpu_bench.h"
#include "ir/tensor.h"

namespace anydim {

// The largest |got - want| of any element, over the largest |want| (over 1 where all are 0).
// Infinity where dims differ or a number is missing that is wanted; a NaN or infinity that is
// wanted counts where it is there too.
double largest_difference(const ir::Tensor& got, const ir::Tensor& want);

// y of x[m, k] * w[k, n] + bias[n] at up to 8 rows and 64 columns, the first and the last among
// them: difference as above.
double product_difference(const ir::Tensor& x, const ir::Tensor& w, const ir::Tensor& bias,
                          const ir::Tensor& y);

// Result of time_attention's program at up to 32 rows of a head, the first and the last among them;
// `inputs`: queries, keys and values as it lays them out.
double attention_difference(const GpuAttention& shape, std::span<const ir::Tensor> inputs,
                            const ir::Tensor& result);

}  // namespace anydim
