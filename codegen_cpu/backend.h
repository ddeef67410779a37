// The CPU's code generator behind ir::Backend. No LLVM header is needed to use it.
#pragma once

#include <memory>
#include <string>

#include "ir/backend.h"

namespace anydim::codegen_cpu {

struct CpuOptions {
  std::string level;  // "x86-64", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16" or "amx";
                      // empty: the best this processor has
  // That candidates are to serve; more than two are offered schedules of smaller tasks too.
  int threads = 2;
};

// Throws Error{CommandLine} for an unknown level, Error{Resource} for one that this processor
// lacks. Safe to share between threads.
std::unique_ptr<ir::Backend> make_cpu_backend(const CpuOptions& options = {});

}  // namespace anydim::codegen_cpu
