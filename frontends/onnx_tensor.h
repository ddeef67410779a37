// Tensors in ONNX's own file form: a serialised TensorProto, as ONNX's node tests store inputs and
// outputs (.pb).
#pragma once

#include <filesystem>

#include "ir/tensor.h"

namespace anydim::frontends {

// Integers of fewer than 8 bits come as i8 or u8, floats of 8 and 4 bits as f16 (FLOAT8E8M0 as
// f32). Throws Error{Malformed} naming the file where it is missing or no consistent tensor,
// Error{Unsupported} for element types that Anydim does not read (strings, complex numbers). Data
// kept in another file is refused.
ir::Tensor read_onnx_tensor(const std::filesystem::path& file);

}  // namespace anydim::frontends
