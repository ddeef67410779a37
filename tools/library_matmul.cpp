#include "tools/library_matmul.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <vector>

namespace anydim::tools {

namespace {

void* open_library(const std::vector<std::string>& names) {
  std::string reason;
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    reason = dlerror();
  }
  throw Error(ErrorKind::Resource,
              "none of {} can be loaded ({}); name the file with --library-path",
              fmt::join(names, ", "), reason);
}

template <typename Function>
Function symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) throw Error(ErrorKind::Resource, "the library has no function {}", name);
  return reinterpret_cast<Function>(found);
}

template <typename Element>
LibraryMatmul mkl_function(void* library, const char* name) {
  using Function = void (*)(int, int, int, int, int, int, float, const Element*, int,
                            const Element*, int, float, float*, int);
  const auto gemm = symbol<Function>(library, name);
  return [gemm](std::int64_t m, std::int64_t n, std::int64_t k, const void* a, const void* b,
                float* c) {
    constexpr int row_major = 101, as_it_is = 111;
    const int rows = static_cast<int>(m), columns = static_cast<int>(n),
              depth = static_cast<int>(k);
    gemm(row_major, as_it_is, as_it_is, rows, columns, depth, 1.0F, static_cast<const Element*>(a),
         depth, static_cast<const Element*>(b), columns, 0.0F, c, columns);
  };
}

LibraryMatmul load_mkl(ir::DType operands, const std::string& path, int threads) {
  // Read when MKL is first called; its own thread layer would need libraries that PyPI's package
  // lays elsewhere.
  setenv("MKL_THREADING_LAYER", threads == 1 ? "SEQUENTIAL" : "INTEL", 0);
  void* library = open_library(
      path.empty() ? std::vector<std::string>{"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"}
                   : std::vector{path});
  symbol<void (*)(int)>(library, "MKL_Set_Num_Threads")(threads);
  return operands == ir::DType::BF16
             ? mkl_function<std::uint16_t>(library, "cblas_gemm_bf16bf16f32")
             : mkl_function<float>(library, "cblas_sgemm");
}

template <typename Element>
LibraryMatmul onednn_function(void* library, const char* name) {
  using Function =
      int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const Element*,
              std::int64_t, const Element*, std::int64_t, float, float*, std::int64_t);
  const auto gemm = symbol<Function>(library, name);
  return [gemm, name](std::int64_t m, std::int64_t n, std::int64_t k, const void* a, const void* b,
                      float* c) {
    if (gemm('N', 'N', m, n, k, 1.0F, static_cast<const Element*>(a), k,
             static_cast<const Element*>(b), n, 0.0F, c, n) != 0)
      throw Error(ErrorKind::Resource, "{} reports a failure", name);
  };
}

LibraryMatmul load_onednn(ir::DType operands, const std::string& path, int threads) {
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  void* library = open_library(
      path.empty() ? std::vector<std::string>{"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"}
                   : std::vector{path});
  return operands == ir::DType::BF16
             ? onednn_function<std::uint16_t>(library, "dnnl_gemm_bf16bf16f32")
             : onednn_function<float>(library, "dnnl_sgemm");
}

}  // namespace

LibraryMatmul load_matmul(ir::DType operands, const std::string& library, const std::string& path,
                          int threads) {
  return library == "mkl" ? load_mkl(operands, path, threads)
                          : load_onednn(operands, path, threads);
}

}  // namespace anydim::tools
