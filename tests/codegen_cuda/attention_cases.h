// Attention regions as text, in the forms that exporters and the compiler's own passes give them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/codegen_cuda/kernel_case.h"

namespace anydim::codegen_cuda::testing {

enum class AttentionMask {
  None,
  Padding,       // where(mask[b, j], 0, lowest float)
  Causal,        // where(j <= i, 0, -infinity)
  CausalLowest,  // where(j <= i, 0, lowest float)
  Before,        // where(j < i, 0, -infinity): the first row sees no key
  Window,        // causal, and no further back than `window` keys
  Bias,          // an f32 operand of scores' shape
};

struct AttentionCase {
  int heads = 2;
  int depth = 32;
  std::string dtype = "bf16";   // of queries, keys and values
  std::string result = "bf16";  // of the result
  AttentionMask mask = AttentionMask::None;
  int window = 20;
};

// fn @main(%qkv: Tensor[(b, s, 3 * heads * depth), dtype], [mask]) -> Tensor[(b, s, heads * depth),
// result]: queries, keys and values lie beside each other in one buffer, heads beside each other
// within each.
std::string merged_attention(const AttentionCase& attention);

// The region's kernel under a schedule, for a part of which two multiprocessors are there ("a100",
// "h200"). Symbols are b and s.
KernelCase attention_kernel(const std::shared_ptr<const TestRegion>& region,
                            const std::string& part, const std::string& schedule,
                            bool checked = false);

// Runs it for an "h200" at each shape and in each order that the interpreter's timing knows, and
// expects what bf16 allows: weights and results are rounded to it.
void expect_right(const std::shared_ptr<const TestRegion>& region, const std::string& schedule,
                  const std::vector<Symbols>& shapes, bool checked = false);

}  // namespace anydim::codegen_cuda::testing
