#include "frontends/onnx/unsupported.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontends/sizes.h"
#include "ir/error.h"
#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

namespace {

// "Conv", "com.microsoft.FusedConv", or "Gelu in opset 17" where another opset has it.
std::string operator_text(const onnx::NodeProto& node, const Opsets& opsets) {
  const auto [domain, version] = opsets.of_node(node.domain());
  const std::string name = domain.empty()
                               ? printable(node.op_type())
                               : fmt::format("{}.{}", printable(domain), printable(node.op_type()));
  const auto rows = all_operators();
  const bool elsewhere = std::ranges::any_of(rows, [&, domain = domain](const Operator& row) {
    return row.domain == domain && row.name == node.op_type();
  });
  return elsewhere ? fmt::format("{} in opset {}", name, version) : name;
}

bool uses_standard(const onnx::GraphProto& graph) {
  return std::any_of(graph.node().begin(), graph.node().end(), [](const auto& node) {
    return canonical_domain(node.domain()).empty() ||
           std::any_of(node.attribute().begin(), node.attribute().end(), [](const auto& attribute) {
             return attribute.has_g() && uses_standard(attribute.g());
           });
  });
}

// ONNX Runtime's operators on tensors whose channels lie in blocks of one machine's vectors.
constexpr std::string_view blocked_layouts = "com.microsoft.nchwc";

struct Use {
  std::string text;
  std::string_view domain;
  int nodes = 0;
  std::string first;
};

}  // namespace

Opsets opsets_of(const onnx::ModelProto& model) {
  Opsets opsets;
  std::optional<std::int64_t> opset;
  for (const auto& import : model.opset_import()) {
    opsets.set(import.domain(), version_of(import));
    if (!canonical_domain(import.domain()).empty()) continue;
    if (opset && *opset != import.version()) {
      throw Error(ErrorKind::Malformed, "the model names two opsets, {} and {}", *opset,
                  import.version());
    }
    opset = import.version();
  }
  if (opset) check_opset("the model", *opset);
  return opsets;
}

int version_of(const onnx::OperatorSetIdProto& import) {
  // No domain has a version beyond these numbers; one that claims to is found in no row.
  return static_cast<int>(
      std::clamp<std::int64_t>(import.version(), 0, std::numeric_limits<int>::max()));
}

void check_opset(std::string_view user, std::int64_t opset) {
  if (opset >= first_opset && opset <= last_opset) return;
  throw Error(ErrorKind::Unsupported, "{} uses opset {}; Anydim supports {} to {}", user, opset,
              first_opset, last_opset);
}

void check_standard_named(const onnx::ModelProto& model, const Opsets& opsets) {
  if (opsets.names("")) return;
  if (model.opset_import_size() == 0 || uses_standard(model.graph()))
    throw Error(ErrorKind::Malformed, "the model names no opset of the domain ai.onnx");
}

namespace {

void collect_uses(const onnx::GraphProto& graph, const Opsets& opsets, std::vector<Use>& uses,
                  std::map<std::string, std::size_t>& index_of) {
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& node = graph.node(i);
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) collect_uses(attribute.g(), opsets, uses, index_of);
    const auto [domain, version] = opsets.of_node(node.domain());
    if (find_operator(domain, node.op_type(), version) != nullptr) continue;
    const std::string text = operator_text(node, opsets);
    const auto [found, is_new] = index_of.emplace(text, uses.size());
    if (is_new)
      uses.push_back(
          {text, domain, 0,
           node.name().empty() ? fmt::format("{} #{}", node.op_type(), i) : node.name()});
    ++uses[found->second].nodes;
  }
}

}  // namespace

void refuse_unsupported(const onnx::GraphProto& graph, const Opsets& opsets) {
  std::vector<Use> uses;
  std::map<std::string, std::size_t> index_of;
  collect_uses(graph, opsets, uses, index_of);
  if (uses.empty()) return;
  std::string list;
  for (const Use& use : uses) {
    const std::string count =
        use.nodes == 1 ? "1 node, " : fmt::format("{} nodes, first ", use.nodes);
    list += fmt::format("{}{} ({}{})", list.empty() ? "" : ", ", use.text, count,
                        quoted_name(use.first));
  }
  if (std::ranges::find(uses, blocked_layouts, &Use::domain) != uses.end()) {
    list += fmt::format(
        ". Those of {} have the layout of the machine on which ONNX Runtime optimised the model: "
        "save it at ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL",
        blocked_layouts);
  }
  if (std::ranges::find(uses, "ai.onnx.ml.ZipMap", &Use::text) != uses.end()) {
    list +=
        ". ZipMap makes maps of a classifier's scores: export the model with zipmap=False, which "
        "leaves them a tensor, or take the node out and name its input an output";
  }
  throw Error(ErrorKind::Unsupported, "model uses {} operator{} that Anydim does not support: {}",
              uses.size(), uses.size() == 1 ? "" : "s", list);
}

}  // namespace anydim::frontends
