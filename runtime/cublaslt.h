// cuBLASLt, opened at run time: what carries out products under the policy `library`, and the peer
// of generated matmul kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/backend.h"
#include "runtime/cublaslt_types.h"
#include "runtime/cuda_context.h"

namespace anydim::runtime::cuda {

// d[m, n] = activation(x[m, k] * w[k, n] + bias[n]), all row-major and of one dtype (f32, f16,
// bf16), sums in f32.
struct LibraryProduct {
  std::int64_t m = 0, n = 0, k = 0;
  ir::DType dtype = ir::DType::BF16;
  bool bias = true;
  bool w_by_columns = false;  // w is stored as [n, k]
  ir::LibraryProduct::Activation activation = ir::LibraryProduct::Activation::None;
  bool tf32 = false;  // f32 operands may be rounded to TF32
};

// Any thread: the library is safe to call from several at once, each with a workspace of its own.
class CublasLt {
 public:
  // `path` empty: libcublasLt.so.13 and .12 where the loader finds them. The library stays loaded.
  // Throws Error{Resource}.
  static std::shared_ptr<CublasLt> open(std::shared_ptr<DeviceContext> context,
                                        const std::string& path = {});
  // From a table of functions.
  static std::shared_ptr<CublasLt> make(std::shared_ptr<DeviceContext> context,
                                        CublasLtFunctions functions);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  struct Algorithm {
    LibraryAlgorithm data{};  // the library's own
    std::size_t workspace_bytes = 0;
  };
  // What the library's heuristic offers, the best first, at most `most`. Throws Error{Resource}
  // where it offers none.
  std::vector<Algorithm> algorithms(const LibraryProduct& product, int most) const;

  struct Operands {
    Address x = 0, w = 0, bias = 0, d = 0;
    Address workspace = 0;  // of workspace_bytes, 256-byte aligned, used by one stream at a time
  };
  // Issues the product on the stream; also while it captures. Throws Error{Internal}.
  void enqueue(const LibraryProduct& product, const Operands& operands, const Algorithm& algorithm,
               Stream stream) const;

  static constexpr std::size_t workspace_bytes = ir::LibraryProduct::workspace_bytes;

 private:
  struct Description;
  CublasLt() = default;

  std::shared_ptr<DeviceContext> context_;
  CublasLtFunctions functions_;
  void* handle_ = nullptr;
};

}  // namespace anydim::runtime::cuda
