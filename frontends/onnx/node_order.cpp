#include "frontends/onnx/node_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

namespace {

// What a graph in a node reads of the graphs around it.
void add_reads_around(const onnx::GraphProto& graph, Names& reads) {
  Names inside;
  for (const auto& node : graph.node()) add_reads(node, inside);
  for (const auto& output : graph.output()) inside.insert(output.name());
  for (const auto& input : graph.input()) inside.erase(input.name());
  for (const auto& tensor : graph.initializer()) inside.erase(tensor.name());
  for (const auto& node : graph.node())
    for (const auto& output : node.output()) inside.erase(output);
  reads.merge(inside);
}

}  // namespace

void add_reads(const onnx::NodeProto& node, Names& reads) {
  reads.insert(node.input().begin(), node.input().end());
  for (const auto& attribute : node.attribute())
    if (attribute.has_g()) add_reads_around(attribute.g(), reads);
}

namespace {

// The nodes' places in the order that they should have.
std::vector<int> ordered(const onnx::GraphProto& graph) {
  const int count = graph.node_size();
  std::unordered_map<std::string_view, int> defined_by;
  for (int i = 0; i < count; ++i)
    for (const auto& output : graph.node(i).output())
      if (!output.empty()) defined_by.emplace(output, i);
  std::vector<std::vector<int>> readers(static_cast<std::size_t>(count));
  std::vector<int> awaited(static_cast<std::size_t>(count), 0);
  for (int i = 0; i < count; ++i) {
    Names reads;
    add_reads(graph.node(i), reads);
    for (const std::string_view name : reads) {
      const auto found = defined_by.find(name);
      if (found == defined_by.end()) continue;
      readers[static_cast<std::size_t>(found->second)].push_back(i);
      ++awaited[static_cast<std::size_t>(i)];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < count; ++i)
    if (awaited[static_cast<std::size_t>(i)] == 0) ready.push(i);
  std::vector<int> order;
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const int reader : readers[static_cast<std::size_t>(next)])
      if (--awaited[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
  }
  for (int i = 0; i < count; ++i)
    if (awaited[static_cast<std::size_t>(i)] > 0) order.push_back(i);
  return order;
}

}  // namespace

void order_nodes(onnx::GraphProto& graph) {
  auto& nodes = *graph.mutable_node();
  for (auto& node : nodes)
    for (auto& attribute : *node.mutable_attribute())
      if (attribute.has_g()) order_nodes(*attribute.mutable_g());
  const std::vector<int> order = ordered(graph);
  if (std::ranges::is_sorted(order)) return;
  std::remove_reference_t<decltype(nodes)> sorted;
  for (const int from : order) sorted.Add()->Swap(nodes.Mutable(from));
  nodes.Swap(&sorted);
}

}  // namespace anydim::frontends
