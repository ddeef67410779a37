// The CUDA driver, opened while the program runs: a table of its functions. A test fills the table
// itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/cuda_types.h"

namespace anydim::runtime::cuda {

// Oldest driver interface that has every function of the table.
inline constexpr int oldest_driver = 12000;

struct Driver {
#define ANYDIM_CUDA(member, symbol, ...) std::function<__VA_ARGS__> member;
#include "runtime/cuda_driver.def"
#undef ANYDIM_CUDA
  std::string file;  // where it came from, for doctor
};

// Opens libcuda.so.1 (`file` for tests), fills the table and calls cuInit. The library stays
// loaded. Throws Error{Resource} where there is none, it is too old, or it finds no device.
std::shared_ptr<const Driver> open_driver(const std::string& file = "libcuda.so.1");

// "12.4" for 12040.
std::string version_text(int version);
// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
std::string describe(const Driver& driver, Result result);
// Whether the context is lost after this result.
bool ends_context(Result result);

}  // namespace anydim::runtime::cuda
