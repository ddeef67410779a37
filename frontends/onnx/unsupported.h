// Everything in a model that Anydim cannot compile, said at once.
#pragma once

#include "frontends/onnx/operators.h"

namespace onnx {
class GraphProto;
class ModelProto;
}  // namespace onnx

namespace anydim::frontends {

// The versions of the domains that the model names, the standard one among them. Throws
// Error{Unsupported} where it is outside first_opset..last_opset or the model is of another domain,
// Error{Malformed} where it names none or two.
Opsets opsets_of(const onnx::ModelProto& model);

// Throws Error{Unsupported} listing every operator that the tables of frontends lack, with the
// number of its nodes and the first one's name.
void refuse_unsupported(const onnx::GraphProto& graph, const Opsets& opsets);

}  // namespace anydim::frontends
