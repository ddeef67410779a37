// Models and tensors from files and from memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "ir/module.h"
#include "ir/tensor.h"

namespace anydim {

// An ONNX model, or a module in text form, told apart by the suffix (.onnx; .anydim or .txt) and
// else by content. Weights beside an ONNX model, and files that a text refers to, are mapped, not
// copied; only files inside the model's folder are opened. Throws Error{Malformed} and
// Error{Unsupported}.
ir::Module load_model(const std::filesystem::path& file);

// The same from bytes, told apart by content, which are not needed afterwards. Files that the model
// names are looked for in `folder`; without one, a model that needs any is refused.
ir::Module load_model_bytes(std::span<const std::byte> bytes,
                            const std::optional<std::filesystem::path>& folder = std::nullopt);

// The file as text; nothing where it is an ONNX model. Throws Error{Malformed}.
std::optional<std::string> load_text_file(const std::filesystem::path& file);

// A serialised ONNX TensorProto (.pb). Throws Error{Malformed}, Error{Unsupported}.
ir::Tensor load_onnx_tensor(const std::filesystem::path& file);

}  // namespace anydim
