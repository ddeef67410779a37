// cuBLASLt, opened at run time: the peer of generated matmul kernels. Its functions are declared here by ourselves.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/type.h"
#include "runtime/cuda_context.h"

namespace anydim::runtime::cuda {

// d[m, n] = x[m, k] * w[k, n] + bias[n], all row-major and of one dtype (f32, f16, bf16), sums in f32.
struct LibraryProduct {
  std::int64_t m = 0, n = 0, k = 0;
  ir::DType dtype = ir::DType::BF16;
  bool bias = true;
};

class CublasLt {
 public:
  // `path` empty: libcublasLt.so.13 and .12 where the loader finds them. The library stays loaded. Throws Error{Resource}.
  static std::shared_ptr<CublasLt> open(std::shared_ptr<DeviceContext> context, const std::string& path = {});
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  struct Algorithm {
    std::array<std::uint64_t, 8> data{};  // the library's own
    std::size_t workspace_bytes = 0;
  };
  // What the library's heuristic offers, the best first, at most `most`. Throws Error{Resource} where it offers none.
  std::vector<Algorithm> algorithms(const LibraryProduct& product, int most) const;

  struct Operands {
    Address x = 0, w = 0, bias = 0, d = 0;
  };
  // Issues the product on the stream; the workspace is this object's, so one stream at a time. Throws Error{Internal}.
  void enqueue(const LibraryProduct& product, const Operands& operands, const Algorithm& algorithm, Stream stream) const;

  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

 private:
  struct Functions;
  struct Description;
  CublasLt() = default;

  std::shared_ptr<DeviceContext> context_;
  std::unique_ptr<Functions> functions_;
  void* handle_ = nullptr;
  Address workspace_ = 0;
};

}  // namespace anydim::runtime::cuda
