// Matmul of a library that is opened while the program runs, for comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "api/anydim.h"

namespace anydim::tools {

// c[m, n] = a[m, k] * b[k, n], row-major; c is f32.
using LibraryMatmul = std::function<void(std::int64_t m, std::int64_t n, std::int64_t k,
                                         const void* a, const void* b, float* c)>;

// `operands`: f32 or bf16; `library`: "mkl" or "onednn"; `path` empty: the file's usual names. The
// library stays loaded. Throws Error{Resource}.
LibraryMatmul load_matmul(ir::DType operands, const std::string& library, const std::string& path,
                          int threads);

}  // namespace anydim::tools
