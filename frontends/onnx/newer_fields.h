// Fields that newer schemas of ONNX have and the one that Anydim is built with (cmake/
// AnydimOnnxSchema.cmake) lacks: protobuf keeps them as bytes.
#pragma once

#include <string>
#include <vector>

#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

// Which of the functions of one name it is, or is called; mostly empty. Of ONNX's IR version 10.
std::string overload_of(const onnx::FunctionProto& function);
std::string overload_of(const onnx::NodeProto& node);

// Attributes that a call may leave out, with what they are then. Of ONNX's IR version 9. Throws
// Error{Malformed} where they cannot be read.
std::vector<onnx::AttributeProto> attribute_defaults(const onnx::FunctionProto& function);

}  // namespace anydim::frontends
