// A graph of the ONNX schema to a function.
#pragma once

#include "frontends/external_data.h"
#include "ir/module.h"

namespace onnx {
class GraphProto;
}

namespace anydim::frontends {

// Takes the data out of the graph's tensors. Throws as frontends/onnx.h says.
ir::Function import_graph(onnx::GraphProto& graph, int opset, ExternalData& external);

}  // namespace anydim::frontends
