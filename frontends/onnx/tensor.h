// TensorProto to ir::Tensor.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "frontends/external_data.h"
#include "frontends/onnx/element_type.h"
#include "ir/tensor.h"

namespace onnx {
class TensorProto;
}

namespace anydim::frontends {

// Moves the data out of `proto` (it is empty afterwards) or maps it; copies only data stored in a
// wider field. `what` names the tensor in messages, e.g. "initialiser 'w'". Tensors of
// narrow types are held as element_type.h says. Throws Error{Malformed} where type, dims and data
// disagree.
ir::Tensor take_tensor(onnx::TensorProto& proto, const std::string& what, ExternalData& external);
// The same of a tensor whose raw data, of `length` bytes, were left out of `proto` and come from
// `source`.
ir::Tensor tensor_apart(const onnx::TensorProto& proto, const std::string& what, std::size_t length,
                        std::shared_ptr<const ir::TensorSource> source);

}  // namespace anydim::frontends
