// A graph of the ONNX schema to a function.
#pragma once

#include "frontends/external_data.h"
#include "frontends/onnx/operators.h"
#include "frontends/onnx/weights_apart.h"
#include "ir/module.h"

namespace onnx {
class GraphProto;
}

namespace anydim::frontends {

// Takes the data out of the graph's tensors, or lets them read it where `weights` says that it
// lies. Throws as frontends/onnx.h says.
ir::Function import_graph(onnx::GraphProto& graph, const Opsets& opsets, ExternalData& external,
                          const WeightsApart& weights = {});

}  // namespace anydim::frontends
