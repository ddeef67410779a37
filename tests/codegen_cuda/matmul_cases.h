// Matmul regions as text. Products of 16-bit operands are summed, and results stored, in f32 unless
// asked otherwise: small integers stay exact.
#pragma once

#include <cstdint>
#include <string>

namespace anydim::codegen_cuda::testing {

enum class MatmulEpilogue {
  None,
  Bias,
  BiasGelu,
  Residual,  // bias, then an operand of the result's shape
};

struct MatmulText {
  std::int64_t columns = 64, depth = 64;
  std::string dtype = "bf16";    // of the operands
  std::string result = "f32";    // of sums, bias, residual and result
  bool columns_major = true;     // the right operand is columns x depth, else depth x columns
  bool left_transposed = false;  // the left operand is depth x n
  MatmulEpilogue epilogue = MatmulEpilogue::None;
};

// fn @main(%x: Tensor[(n, depth), dtype], %w: ..., [%bias: Tensor[(columns), result]],
//          [%rest: Tensor[(n, columns), result]]) -> Tensor[(n, columns), result]
std::string matmul_text(const MatmulText& matmul);

}  // namespace anydim::codegen_cuda::testing
