// One operator against a library, interleaved.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/anydim.h"

namespace anydim::tools {

struct OperatorBench {
  // "matmul": x[M, K] times a constant w[K, N] of options.precision; "attention" (CUDA)
  std::string name;
  std::string library = "none";     // "mkl", "onednn" (CPU), "cublas" (CUDA) or "none"
  std::string library_path;         // empty: its usual name
  std::vector<std::string> shapes;  // "M,N,K", or "BATCH,HEADS,LENGTH,HEAD"
  bool json = false;
};

// Prints for each shape the median time of both and their ratio (library / ours: over 1 is faster
// here), then the geometric mean and the least ratio. One compiled program serves every M of the
// same N and K. Throws Error{CommandLine} for a malformed shape, Error{Resource} where the library
// cannot be loaded.
void run_operator_bench(const OperatorBench& bench, const CompileOptions& options);

// The same on the GPU in bf16, matmul with a bias, device time alone; the library's heuristic
// choice and the best of up to 100 of its algorithms.
void run_gpu_operator_bench(const OperatorBench& bench, const CompileOptions& options);

// Prints the geometric mean and the least of the ratios of all shapes (none where nothing was
// compared), after the shapes' own lines or with them in one JSON object. `slower` is what a ratio
// over 1 is faster than.
void print_ratios(const OperatorBench& bench, const nlohmann::ordered_json& shapes,
                  const std::vector<double>& ratios, std::string_view slower);

// "8,12,128" with `count` numbers from 1 to 2^24; `what` is for the message. Throws
// Error{CommandLine}.
std::vector<std::int64_t> parse_shape(const std::string& text, std::size_t count,
                                      std::string_view what);

}  // namespace anydim::tools
