// The order of a graph's nodes, and what they read.
#pragma once

#include <string_view>
#include <unordered_set>

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace anydim::frontends {

using Names = std::unordered_set<std::string_view>;

// Adds the names that the node reads, and what graphs in it read of those around it. They stay the
// message's.
void add_reads(const onnx::NodeProto& node, Names& reads);

// Puts every node, of graphs in nodes too, behind those that define what it reads: ONNX demands
// that order, but tools that insert nodes (converters to f16) append them at the end, and ONNX
// Runtime takes any. Nodes that need not move keep their order, and so do those that read each
// other's results all the way round, which reading then refuses.
void order_nodes(onnx::GraphProto& graph);

}  // namespace anydim::frontends
