// Tensors held against expected ones, as ONNX's node tests are judged.
#pragma once

#include <string>

#include "ir/tensor.h"

namespace anydim::frontends {

std::string shape_text(const ir::Tensor& tensor);  // "f32 (2,3,)"

// Empty where dtype, dims and elements agree: integers exactly, reals within 1e-3 relative and an
// absolute tolerance scaled by the largest expected value (f16 and bf16: 1e-2, since they round at
// every op of a composite).
std::string difference(const ir::Tensor& got, const ir::Tensor& want);

}  // namespace anydim::frontends
