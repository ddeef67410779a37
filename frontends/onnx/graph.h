// A graph of the ONNX schema to a function.
#pragma once

#include "frontends/external_data.h"
#include "frontends/onnx/operators.h"
#include "ir/module.h"

namespace onnx {
class GraphProto;
}

namespace anydim::frontends {

// Takes the data out of the graph's tensors. Throws as frontends/onnx.h says.
ir::Function import_graph(onnx::GraphProto& graph, const Opsets& opsets, ExternalData& external);

}  // namespace anydim::frontends
