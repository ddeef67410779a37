#include "frontends/onnx/unsupported.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontends/onnx/operators.h"
#include "frontends/sizes.h"
#include "ir/error.h"
#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

namespace {

bool is_standard(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

// "Conv", "com.microsoft.FusedMatMul", or "Gelu in opset 17" where another opset has it.
std::string operator_text(const onnx::NodeProto& node, int opset) {
  if (!is_standard(node.domain())) return fmt::format("{}.{}", printable(node.domain()), printable(node.op_type()));
  const auto rows = all_operators();
  const bool elsewhere = std::any_of(rows.begin(), rows.end(), [&](const Operator& row) { return row.name == node.op_type(); });
  return elsewhere ? fmt::format("{} in opset {}", node.op_type(), opset) : printable(node.op_type());
}

struct Use {
  std::string text;
  int nodes = 0;
  std::string first;
};

}  // namespace

int opset_of(const onnx::ModelProto& model) {
  std::optional<std::int64_t> opset;
  for (const auto& import : model.opset_import()) {
    if (!is_standard(import.domain())) continue;
    if (opset && *opset != import.version()) {
      throw Error(ErrorKind::Malformed, fmt::format("the model names two opsets, {} and {}", *opset, import.version()));
    }
    opset = import.version();
  }
  if (!opset) {
    refuse_unsupported(model.graph(), last_opset);  // a model of other domains only
    throw Error(ErrorKind::Malformed, "the model names no opset of the domain ai.onnx");
  }
  if (*opset < first_opset || *opset > last_opset) {
    throw Error(ErrorKind::Unsupported, fmt::format("the model uses opset {}; Anydim supports {} to {}", *opset, first_opset, last_opset));
  }
  return static_cast<int>(*opset);
}

namespace {

void collect_uses(const onnx::GraphProto& graph, int opset, std::vector<Use>& uses, std::map<std::string, std::size_t>& index_of) {
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& node = graph.node(i);
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) collect_uses(attribute.g(), opset, uses, index_of);
    if (is_standard(node.domain()) && find_operator(node.op_type(), opset) != nullptr) continue;
    const std::string text = operator_text(node, opset);
    const auto [found, is_new] = index_of.emplace(text, uses.size());
    if (is_new) uses.push_back({text, 0, node.name().empty() ? fmt::format("{} #{}", node.op_type(), i) : node.name()});
    ++uses[found->second].nodes;
  }
}

}  // namespace

void refuse_unsupported(const onnx::GraphProto& graph, int opset) {
  std::vector<Use> uses;
  std::map<std::string, std::size_t> index_of;
  collect_uses(graph, opset, uses, index_of);
  if (uses.empty()) return;
  std::string list;
  for (const Use& use : uses) {
    const std::string count = use.nodes == 1 ? "1 node, " : fmt::format("{} nodes, first ", use.nodes);
    list += fmt::format("{}{} ({}{})", list.empty() ? "" : ", ", use.text, count, quoted_name(use.first));
  }
  throw Error(ErrorKind::Unsupported,
              fmt::format("model uses {} operator{} that Anydim does not support: {}", uses.size(), uses.size() == 1 ? "" : "s", list));
}

}  // namespace anydim::frontends
