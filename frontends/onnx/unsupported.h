// Everything in a model that Anydim cannot compile, said at once.
#pragma once

namespace onnx {
class GraphProto;
class ModelProto;
}  // namespace onnx

namespace anydim::frontends {

// The opset of the ai.onnx domain. Throws Error{Unsupported} where it is outside first_opset..last_opset or the model is of
// another domain, Error{Malformed} where it names none or two.
int opset_of(const onnx::ModelProto& model);

// Throws Error{Unsupported} listing every operator that frontends/onnx_ops.def lacks, with the number of its nodes and the first one's name.
void refuse_unsupported(const onnx::GraphProto& graph, int opset);

}  // namespace anydim::frontends
