// Models and tensors from files.
#pragma once

#include <filesystem>

#include "ir/module.h"
#include "ir/tensor.h"

namespace anydim {

// An ONNX model, or a module in text form, told apart by the suffix (.onnx; .anydim or .txt) and else by content. Weights beside an ONNX model,
// and files that a text refers to, are mapped, not copied; only files inside the model's folder are opened. Throws Error{Malformed} and
// Error{Unsupported}.
ir::Module load_model(const std::filesystem::path& file);

// A serialised ONNX TensorProto (.pb). Throws Error{Malformed}, Error{Unsupported}.
ir::Tensor load_onnx_tensor(const std::filesystem::path& file);

}  // namespace anydim
