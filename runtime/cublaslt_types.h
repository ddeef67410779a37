// cuBLASLt's interface as far as it is used here, declared by ourselves. Names, layouts and numbers
// are those of cublasLt.h, cublas_api.h and library_types.h of CUDA 12 and 13.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime/cuda_types.h"

namespace anydim::runtime::cuda {

using LibraryStatus = int;
inline constexpr LibraryStatus library_success = 0, library_not_supported = 15;

inline constexpr int compute_f32 = 68, compute_f32_fast_tf32 = 77;         // cublasComputeType_t
inline constexpr int library_f32 = 0, library_f16 = 2, library_bf16 = 14;  // cudaDataType
inline constexpr int operation_transpose = 1;                              // cublasOperation_t
inline constexpr int description_transpose_a = 3, description_epilogue = 7,
                     description_bias_pointer = 8, description_bias_type = 26;
inline constexpr int epilogue_default = 1, epilogue_relu = 2, epilogue_bias = 4,
                     epilogue_gelu = 32;  // with bias: their sum with epilogue_bias
inline constexpr int preference_workspace = 1, preference_alignment_a = 5,
                     preference_alignment_d = 8;  // a, b, c, d in order

// cublasLtMatmulAlgo_t
struct LibraryAlgorithm {
  std::uint64_t words[8];
};
// cublasLtMatmulHeuristicResult_t
struct LibraryHeuristic {
  LibraryAlgorithm algorithm;
  std::size_t workspace_bytes;
  LibraryStatus state;
  float waves;
  int reserved[4];
};

// The table that CublasLt fills by dlopen; a test fills it itself.
struct CublasLtFunctions {
#define ANYDIM_CUBLASLT(member, symbol, ...) std::function<__VA_ARGS__> member;
#include "runtime/cublaslt_functions.def"
#undef ANYDIM_CUBLASLT
};

}  // namespace anydim::runtime::cuda
