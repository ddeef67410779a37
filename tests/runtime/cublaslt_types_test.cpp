// Our declarations of cuBLASLt against its header, as it is compiled: every function's signature,
// every number, every layout.
#include "runtime/cublaslt_types.h"

#include <cublasLt.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace anydim::runtime::cuda {
namespace {

// Passed alike: of one size, in the same kind of register. Enumerations are ints, handles and
// addresses words.
template <typename Ours, typename Theirs>
constexpr bool passed_alike() {
  return sizeof(Ours) == sizeof(Theirs) && !std::is_floating_point_v<Ours> &&
         !std::is_floating_point_v<Theirs> && !std::is_class_v<Ours> && !std::is_class_v<Theirs>;
}

template <typename Ours, typename Theirs>
struct Signatures : std::false_type {};
template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct Signatures<OurResult(Ours...), TheirResult(Theirs...)>
    : std::bool_constant<passed_alike<OurResult, TheirResult>() &&
                         (passed_alike<Ours, Theirs>() && ...)> {};

#define ANYDIM_CUBLASLT(member, symbol, ...) \
  static_assert(Signatures<__VA_ARGS__, decltype(::symbol)>::value, #symbol);
#include "runtime/cublaslt_functions.def"
#undef ANYDIM_CUBLASLT

static_assert(sizeof(LibraryAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(LibraryHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(LibraryHeuristic, algorithm) ==
              offsetof(cublasLtMatmulHeuristicResult_t, algo));
static_assert(offsetof(LibraryHeuristic, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(LibraryHeuristic, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(LibraryHeuristic, waves) ==
              offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

TEST(CublasLtTypes, NumbersAreThoseOfTheHeader) {
  EXPECT_EQ(library_success, CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(library_not_supported, CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(compute_f32, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(compute_f32_fast_tf32, CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(library_f32, CUDA_R_32F);
  EXPECT_EQ(library_f16, CUDA_R_16F);
  EXPECT_EQ(library_bf16, CUDA_R_16BF);
  EXPECT_EQ(operation_transpose, CUBLAS_OP_T);
  EXPECT_EQ(description_transpose_a, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(description_epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(description_bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(description_bias_type, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  EXPECT_EQ(epilogue_default, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(epilogue_relu, CUBLASLT_EPILOGUE_RELU);
  EXPECT_EQ(epilogue_bias, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(epilogue_gelu, CUBLASLT_EPILOGUE_GELU);
  EXPECT_EQ(epilogue_relu | epilogue_bias, CUBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_EQ(epilogue_gelu | epilogue_bias, CUBLASLT_EPILOGUE_GELU_BIAS);
  EXPECT_EQ(preference_workspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(preference_alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(preference_alignment_a + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  EXPECT_EQ(preference_alignment_a + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  EXPECT_EQ(preference_alignment_d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
}

}  // namespace
}  // namespace anydim::runtime::cuda
