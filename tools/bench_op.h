// One operator against a library, interleaved.
#pragma once

#include <string>
#include <vector>

#include "api/anydim.h"

namespace anydim::tools {

struct OperatorBench {
  std::string name;                 // "matmul": f32 x[M, K] times a constant w[K, N]
  std::string library = "none";     // "mkl", "onednn" or "none"
  std::string library_path;         // empty: its usual name
  std::vector<std::string> shapes;  // "M,N,K"
  bool json = false;
};

// Prints for each shape the median time of both and their ratio (library / ours: over 1 is faster here), then the geometric mean and the least
// ratio. One compiled program serves every M of the same N and K. Throws Error{CommandLine} for a malformed shape, Error{Resource} where the
// library cannot be loaded.
void run_operator_bench(const OperatorBench& bench, const CompileOptions& options);

}  // namespace anydim::tools
