// The order of a graph's nodes.
#pragma once

namespace onnx {
class GraphProto;
}

namespace anydim::frontends {

// Puts every node, of graphs in nodes too, behind those that define what it reads: ONNX demands
// that order, but tools that insert nodes (converters to f16) append them at the end, and ONNX
// Runtime takes any. Nodes that need not move keep their order, and so do those that read each
// other's results all the way round, which reading then refuses.
void order_nodes(onnx::GraphProto& graph);

}  // namespace anydim::frontends
