// Matmul of a library that is opened while the program runs, for comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace anydim::tools {

// c[m, n] = a[m, k] * b[k, n], row-major f32.
using LibraryMatmul = std::function<void(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c)>;

// `library`: "mkl" or "onednn"; `path` empty: the file's usual names. The library stays loaded. Throws Error{Resource}.
LibraryMatmul load_matmul(const std::string& library, const std::string& path, int threads);

}  // namespace anydim::tools
