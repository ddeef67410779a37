// Tensors in ONNX's own file form: a serialised TensorProto, as ONNX's node tests store inputs and
// outputs (.pb).
#pragma once

#include <filesystem>

#include "ir/tensor.h"

namespace anydim::frontends {

// Throws Error{Malformed} naming the file where it is missing or no consistent tensor,
// Error{Unsupported} for element types without a DType (strings, complex numbers, floats of 8 bits,
// integers of 4). Data kept in another file is refused.
ir::Tensor read_onnx_tensor(const std::filesystem::path& file);

}  // namespace anydim::frontends
