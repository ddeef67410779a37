// How the operands of attention reach tensor cores, and how its results leave them.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen_cuda/matmul/matmul_operands.h"
#include "ir/loops/loop_form.h"
#include "ir/module.h"

namespace anydim::codegen_cuda {

enum class OutputForm : std::uint8_t {
  Narrow,   // finished rows are converted to 16-bit floats and written in pieces of 16 bytes
  Wide,     // finished rows are written as f32
  Program,  // the epilogue's program computes and stores each element
};

struct AttentionOperands {
  ir::DType dtype = ir::DType::BF16;  // of all three, or F16
  std::int64_t depth = 0, width = 0;  // multiples of 16
  DirectOperand query, key, value;    // 16-bit floats, in pieces of 16 bytes
  OutputForm output_form = OutputForm::Program;
  DirectOperand output;                      // Narrow and Wide
  ir::DType output_dtype = ir::DType::BF16;  // Narrow and Wide
};

// nullopt where mma.sync cannot take the form as it is: other dtypes than f16 and bf16, rows that
// are computed or do not lie in pieces of 16 bytes, head dims that are unknown, above 128 or no
// multiples of 16.
std::optional<AttentionOperands> attention_operands(const ir::Region& region,
                                                    const ir::AttentionForm& form,
                                                    const ir::SymbolTable& symbols);

}  // namespace anydim::codegen_cuda
