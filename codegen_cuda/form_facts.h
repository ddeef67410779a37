// What is derived from a form once, for all the schedules and shapes that are asked about: costs
// are estimated thousands of times for one table.
#pragma once

#include <optional>

#include "codegen_cuda/attention/attention_operands.h"
#include "codegen_cuda/attention/attention_score.h"
#include "codegen_cuda/kernel_kind.h"
#include "codegen_cuda/matmul/matmul_operands.h"
#include "codegen_cuda/matmul/matmul_wgmma.h"
#include "ir/loops/placed_kernel.h"

namespace anydim::codegen_cuda {

// Only what belongs to the form's kind is filled in. Operands are nullopt where their kind of
// tensor core does not take the form.
struct FormFacts {
  // Matmul.
  std::optional<TensorOperands> tensor;
  std::optional<TensorOperands> tf32;  // where the target allows it
  std::optional<TmaOperands> tma;      // where the target has wgmma; points into the form
  // Attention.
  std::optional<AttentionOperands> attention;
  AttentionScore score;
  KeyRange key_range;
  ir::Dim sequence_rows = 0;  // of sequences laid end to end, on average
  // Batch points of a matmul or of attention.
  ir::Dim points = 1;
  // Rows have two: as they stand where a row's values stay in registers, and where they are read
  // again. A map has one for each part.
  std::vector<ir::PlacedKernel> placed;
  // Rows: registers of a thread for each element that it keeps from one stage to the next.
  std::int64_t kept_registers = 0;
};

}  // namespace anydim::codegen_cuda
