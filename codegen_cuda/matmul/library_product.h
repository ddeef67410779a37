// Which products cuBLASLt can carry out (policy `library`).
#pragma once

#include <optional>
#include <string>

#include "codegen_cuda/kernel_kind.h"

namespace anydim::codegen_cuda {

// A product of rows that lie one after the other with a weight of known size, all of one dtype, and
// of its epilogue a bias, ReLU or the tanh form of GELU. As generated kernels do, 16-bit values
// between them stay wide.
struct LibraryForm {
  std::optional<ir::LibraryProduct> product;
  ir::Dim rows;
  std::string reason;  // where there is no product: why
};
LibraryForm library_form(const PlanInputs& inputs);

inline constexpr const char* library_schedule_name = "cublaslt";

}  // namespace anydim::codegen_cuda
