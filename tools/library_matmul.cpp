#include "tools/library_matmul.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <vector>

#include "api/anydim.h"

namespace anydim::tools {

namespace {

void* open_library(const std::vector<std::string>& names) {
  std::string reason;
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    reason = dlerror();
  }
  throw Error(ErrorKind::Resource,
              fmt::format("none of {} can be loaded ({}); name the file with --library-path", fmt::join(names, ", "), reason));
}

template <typename Function>
Function symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) throw Error(ErrorKind::Resource, fmt::format("the library has no function {}", name));
  return reinterpret_cast<Function>(found);
}

LibraryMatmul load_mkl(const std::string& path, int threads) {
  // Read when MKL is first called; its own thread layer would need libraries that PyPI's package lays elsewhere.
  setenv("MKL_THREADING_LAYER", threads == 1 ? "SEQUENTIAL" : "INTEL", 0);
  void* library =
      open_library(path.empty() ? std::vector<std::string>{"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"} : std::vector{path});
  symbol<void (*)(int)>(library, "MKL_Set_Num_Threads")(threads);
  // CBLAS: row-major 101, not transposed 111.
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  const auto sgemm = symbol<Sgemm>(library, "cblas_sgemm");
  return [sgemm](std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c) {
    const int rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k);
    sgemm(101, 111, 111, rows, columns, depth, 1.0F, a, depth, b, columns, 0.0F, c, columns);
  };
}

LibraryMatmul load_onednn(const std::string& path, int threads) {
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  void* library = open_library(path.empty() ? std::vector<std::string>{"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"} : std::vector{path});
  using Sgemm = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*, std::int64_t, const float*, std::int64_t,
                        float, float*, std::int64_t);
  const auto sgemm = symbol<Sgemm>(library, "dnnl_sgemm");
  return [sgemm](std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c) {
    if (sgemm('N', 'N', m, n, k, 1.0F, a, k, b, n, 0.0F, c, n) != 0) throw Error(ErrorKind::Resource, "dnnl_sgemm reports a failure");
  };
}

}  // namespace

LibraryMatmul load_matmul(const std::string& library, const std::string& path, int threads) {
  return library == "mkl" ? load_mkl(path, threads) : load_onednn(path, threads);
}

}  // namespace anydim::tools
