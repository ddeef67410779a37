// Bytes to protobuf messages of the ONNX schema.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

// `what` names the bytes in messages, e.g. "model 'a.onnx'". Throws Error{Malformed} where the
// bytes are empty, truncated, no such message, nested deeper than protobuf follows (100 levels) or
// over its limit of 2 GiB.
onnx::ModelProto parse_model(std::span<const std::byte> bytes, const std::string& what);
onnx::TensorProto parse_tensor(std::span<const std::byte> bytes, const std::string& what);

}  // namespace anydim::frontends
