// Epilogues of sums that lie in fragments, a pair of neighbouring columns at a time, and results
// that leave through swizzled boxes (device/matmul_fragments.cuh).
#pragma once

#include <string>

#include "codegen_cuda/matmul/matmul_parts.h"

namespace anydim::codegen_cuda {

// A warp's sums, 16 rows x `columns` columns (a multiple of 64), and where they go.
struct FragmentSums {
  std::string sums;   // float[1][columns / 8][4]
  std::string boxes;  // address of the warp's two boxes in shared memory
  std::string map;    // of the result, whose boxes are 16 rows x 64 columns
  std::int64_t columns = 64;
  std::string first_row, first_column;  // of the product: index expressions
};
// `result`: the product's only one, of 16-bit floats in rows whose bytes are a multiple of 16. Rows
// and columns that are not there are computed from the last that is, and not stored: no element
// asks where it lies.
void write_fragments(KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form,
                     const MatmulNames& names, const FragmentSums& fragments,
                     const ir::Store& result);

}  // namespace anydim::codegen_cuda
