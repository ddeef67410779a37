#include <fmt/format.h>

#include "frontends/onnx/node.h"
#include "frontends/onnx/tensor.h"
#include "frontends/sizes.h"
#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

namespace {

const onnx::AttributeProto* attribute_named(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

std::string_view kind_of(const onnx::AttributeProto& attribute) {
  switch (attribute.type()) {
    case onnx::AttributeProto::FLOAT: return "a real number";
    case onnx::AttributeProto::INT: return "an integer";
    case onnx::AttributeProto::STRING: return "a string";
    case onnx::AttributeProto::TENSOR: return "a tensor";
    case onnx::AttributeProto::GRAPH: return "a graph";
    case onnx::AttributeProto::FLOATS: return "real numbers";
    case onnx::AttributeProto::INTS: return "integers";
    case onnx::AttributeProto::STRINGS: return "strings";
    case onnx::AttributeProto::TENSORS: return "tensors";
    case onnx::AttributeProto::GRAPHS: return "graphs";
    default: return "no value or one of another kind";
  }
}

}  // namespace

bool Node::has_attribute(std::string_view name) const {
  return attribute_named(proto_, name) != nullptr;
}

int Node::attribute_count() const { return proto_.attribute_size(); }

const onnx::AttributeProto* Node::find(std::string_view name, int type, std::string_view kind) {
  const onnx::AttributeProto* attribute = attribute_named(proto_, name);
  if (attribute == nullptr) return nullptr;
  used_attributes_.emplace(name);
  if (attribute->type() != type) {
    malformed("takes {} as attribute '{}', got {}", kind, name, kind_of(*attribute));
  }
  return attribute;
}

std::int64_t Node::integer(std::string_view name, std::int64_t fallback) {
  const auto* attribute = find(name, onnx::AttributeProto::INT, "an integer");
  return attribute == nullptr ? fallback : attribute->i();
}

std::int64_t Node::integer(std::string_view name) {
  if (!has_attribute(name)) malformed("lacks the attribute '{}'", name);
  return integer(name, 0);
}

bool Node::flag(std::string_view name, bool fallback) {
  const std::int64_t value = integer(name, fallback ? 1 : 0);
  if (value != 0 && value != 1) malformed("takes 0 or 1 as attribute '{}', got {}", name, value);
  return value == 1;
}

double Node::real(std::string_view name, double fallback) {
  const auto* attribute = find(name, onnx::AttributeProto::FLOAT, "a real number");
  return attribute == nullptr ? fallback : static_cast<double>(attribute->f());
}

double Node::real(std::string_view name) {
  if (!has_attribute(name)) malformed("lacks the attribute '{}'", name);
  return real(name, 0);
}

std::string Node::string(std::string_view name, std::string_view fallback) {
  const auto* attribute = find(name, onnx::AttributeProto::STRING, "a string");
  return attribute == nullptr ? std::string(fallback) : attribute->s();
}

std::string Node::one_of(std::span<const std::string_view> words, std::string_view name,
                         std::string_view fallback) {
  std::string word = string(name, fallback);
  if (std::ranges::find(words, word) == words.end()) {
    malformed("takes '{}' or '{}' as attribute '{}', got {}",
              fmt::join(words.first(words.size() - 1), "', '"), words.back(), name,
              quoted_name(word));
  }
  return word;
}

std::optional<Ints> Node::optional_integers(std::string_view name) {
  const auto* attribute = find(name, onnx::AttributeProto::INTS, "integers");
  if (attribute == nullptr) return std::nullopt;
  return Ints(attribute->ints().begin(), attribute->ints().end());
}

Ints Node::integers(std::string_view name) {
  auto values = optional_integers(name);
  if (!values) malformed("lacks the attribute '{}'", name);
  return *std::move(values);
}

std::vector<double> Node::reals(std::string_view name) {
  const auto* attribute = find(name, onnx::AttributeProto::FLOATS, "real numbers");
  if (attribute == nullptr) malformed("lacks the attribute '{}'", name);
  return {attribute->floats().begin(), attribute->floats().end()};
}

ir::Tensor Node::tensor(std::string_view name) {
  const auto* attribute = find(name, onnx::AttributeProto::TENSOR, "a tensor");
  if (attribute == nullptr) malformed("lacks the attribute '{}'", name);
  // The node is the importer's own, and the data is wanted without a copy.
  auto& proto = *const_cast<onnx::AttributeProto*>(attribute)->mutable_t();
  return take_tensor(proto, fmt::format("the tensor '{}' of node {}", name, quoted_name(name_)),
                     external_);
}

const ElementType& Node::tensor_type(std::string_view name) {
  const auto* attribute = find(name, onnx::AttributeProto::TENSOR, "a tensor");
  if (attribute == nullptr) malformed("lacks the attribute '{}'", name);
  return element_type_numbered(attribute->t().data_type(),
                               fmt::format("the tensor '{}' of node {}", name, quoted_name(name_)));
}

const ElementType* Node::any_element_type(std::string_view name) {
  if (!has_attribute(name)) return nullptr;
  return &element_type_numbered(integer(name),
                                fmt::format("attribute '{}' of {}", name, description()));
}

std::optional<ir::DType> Node::element_type(std::string_view name) {
  if (!has_attribute(name)) return std::nullopt;
  return dtype_numbered(integer(name), fmt::format("attribute '{}' of {}", name, description()));
}

void Node::ignore_attribute(std::string_view name) { used_attributes_.emplace(name); }

void Node::check_attributes_used() const {
  std::set<std::string_view> seen;
  for (const auto& attribute : proto_.attribute()) {
    if (!seen.insert(attribute.name()).second)
      malformed("gives the attribute {} twice", quoted_name(attribute.name()));
    if (!used_attributes_.contains(attribute.name())) {
      malformed("has the attribute {}, which it does not take in opset {}",
                quoted_name(attribute.name()), opset_);
    }
  }
}

std::vector<std::string> Node::strings(std::string_view name) {
  const auto* attribute = find(name, onnx::AttributeProto::STRINGS, "strings");
  if (attribute == nullptr) return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

Values Node::graph(std::string_view name, const Values& arguments) {
  if (find(name, onnx::AttributeProto::GRAPH, "a graph") == nullptr)
    malformed("lacks the attribute '{}'", name);
  for (auto& attribute : *proto_.mutable_attribute())
    if (attribute.name() == name)
      return of(subgraphs_.import(*attribute.mutable_g(), ids_of(arguments),
                                  fmt::format("attribute '{}' of {}", name, description())));
  return {};
}

int Node::graph_inputs(std::string_view name) {
  const auto* attribute = find(name, onnx::AttributeProto::GRAPH, "a graph");
  if (attribute == nullptr) malformed("lacks the attribute '{}'", name);
  return attribute->g().input_size();
}

std::optional<std::size_t> Node::graph_input_rank(std::string_view name, std::size_t index) {
  if (static_cast<std::size_t>(graph_inputs(name)) <= index) return std::nullopt;
  const auto* attribute = find(name, onnx::AttributeProto::GRAPH, "a graph");
  const auto& type = attribute->g().input(static_cast<int>(index)).type().tensor_type();
  if (!type.has_shape()) return std::nullopt;
  return static_cast<std::size_t>(type.shape().dim_size());
}

}  // namespace anydim::frontends
