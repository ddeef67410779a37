// TensorProto to ir::Tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "frontends/external_data.h"
#include "ir/tensor.h"

namespace onnx {
class TensorProto;
}

namespace anydim::frontends {

// The element type with ONNX's number `number`. `what` starts the message of an error:
// Error{Malformed} where the number means no type, Error{Unsupported} where it means one without a
// DType.
ir::DType dtype_numbered(std::int64_t number, const std::string& what);

// Moves the data out of `proto` (it is empty afterwards) or maps it; copies only data stored in a
// wider field. `what` names the tensor in messages, e.g. "initialiser 'w'". Throws Error{Malformed}
// where type, dims and data disagree.
ir::Tensor take_tensor(onnx::TensorProto& proto, const std::string& what, ExternalData& external);
// The same of a tensor whose raw data, of `length` bytes, were left out of `proto` and come from
// `source`.
ir::Tensor tensor_apart(const onnx::TensorProto& proto, const std::string& what, std::size_t length,
                        std::shared_ptr<const ir::TensorSource> source);

}  // namespace anydim::frontends
