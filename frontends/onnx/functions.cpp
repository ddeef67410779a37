#include "frontends/onnx/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/onnx/newer_fields.h"
#include "frontends/onnx/unsupported.h"
#include "frontends/sizes.h"
#include "ir/error.h"
#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

namespace {

constexpr int deepest_call = 64;
constexpr std::uint64_t most_nodes = 100'000;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;
// A name made up for each value of each call would otherwise grow with every level.
constexpr std::size_t longest_name = 128;

using Names = std::unordered_map<std::string, std::string>;
using Attributes = std::map<std::string, const onnx::AttributeProto*>;
using Versions = std::map<std::string, int, std::less<>>;  // by canonical domain
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

void collect_names(const onnx::GraphProto& graph, std::unordered_set<std::string>& names) {
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& node : graph.node()) {
    names.insert(node.output().begin(), node.output().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect_names(attribute.g(), names);
    }
  }
}

[[noreturn]] void misfit(const onnx::NodeProto& node, const std::string& why) {
  throw Error(ErrorKind::Malformed, "node {} ({}) calls a function of the model: {}",
              quoted_name(node.name()), printable(node.op_type()), why);
}

struct Function {
  const onnx::FunctionProto* proto = nullptr;
  std::vector<onnx::AttributeProto> defaults;  // of attributes that a call leaves out
  Versions versions;                           // of the domains that the body uses
};

class Functions {
 public:
  explicit Functions(const onnx::ModelProto& model) {
    for (const auto& function : model.functions()) {
      Function one{.proto = &function, .defaults = attribute_defaults(function), .versions = {}};
      for (const auto& import : function.opset_import())
        one.versions[std::string(canonical_domain(import.domain()))] = version_of(import);
      if (!functions_
               .emplace(
                   Key{canonical_domain(function.domain()), function.name(), overload_of(function)},
                   std::move(one))
               .second) {
        throw Error(ErrorKind::Malformed, "the model defines its function {} twice",
                    quoted_name(function.name()));
      }
    }
  }

  const Function* called_by(const onnx::NodeProto& node) const {
    const auto found =
        functions_.find(Key{canonical_domain(node.domain()), node.op_type(), overload_of(node)});
    return found == functions_.end() ? nullptr : &found->second;
  }

  std::uint64_t largest_default() const {
    std::uint64_t largest = 0;
    for (const auto& [key, function] : functions_)
      for (const auto& attribute : function.defaults)
        largest = std::max<std::uint64_t>(largest, attribute.ByteSizeLong());
    return largest;
  }

 private:
  // domain, name, overload; the first two are the model's
  using Key = std::tuple<std::string_view, std::string_view, std::string>;
  std::map<Key, Function> functions_;
};

std::uint64_t saturating(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

// What a graph becomes with its functions in place, told without placing them. Bytes are an upper
// bound: every reference to an attribute counts as the largest that any call gives.
class ExpandedSize {
 public:
  ExpandedSize(const onnx::ModelProto& model, const Functions& functions)
      : functions_(functions), largest_(functions.largest_default()) {
    find_largest(model.graph().node());
    for (const auto& function : model.functions()) find_largest(function.node());
    const Size whole = of(model.graph().node());
    if (whole.nodes > most_nodes || whole.bytes > most_bytes) {
      throw Error(ErrorKind::Unsupported,
                  "the model's functions make it larger than {} nodes or {} bytes", most_nodes,
                  most_bytes);
    }
  }

 private:
  struct Size {
    std::uint64_t nodes = 0, bytes = 0;
    int height = 0;  // of calls in each other
    void add(const Size& other) {
      nodes = saturating(nodes, other.nodes);
      bytes = saturating(bytes, other.bytes);
      height = std::max(height, other.height);
    }
  };

  template <typename NodeList>
  void find_largest(const NodeList& nodes) {
    for (const auto& node : nodes) {
      const bool calls = functions_.called_by(node) != nullptr;
      for (const auto& attribute : node.attribute()) {
        if (calls) largest_ = std::max<std::uint64_t>(largest_, attribute.ByteSizeLong());
        if (attribute.has_g()) find_largest(attribute.g().node());
      }
    }
  }

  template <typename NodeList>
  Size of(const NodeList& nodes) {
    Size sum;
    for (const auto& node : nodes) sum.add(of(node));
    return sum;
  }

  Size of(const onnx::NodeProto& node) {
    if (const auto* function = functions_.called_by(node)) return of(*function->proto, node);
    Size size{1, node.ByteSizeLong(), 0};
    for (const auto& attribute : node.attribute()) {
      if (!attribute.ref_attr_name().empty()) size.bytes = saturating(size.bytes, largest_);
      if (attribute.has_g()) size.add(of(attribute.g().node()));
    }
    return size;
  }

  Size of(const onnx::FunctionProto& function, const onnx::NodeProto& node) {
    const std::string too_deep =
        fmt::format("calls nest more than {} deep, or it calls itself", deepest_call);
    const auto [found, fresh] = sizes_.try_emplace(&function, std::nullopt);
    if (!fresh && !found->second) misfit(node, too_deep);
    if (!fresh) return *found->second;
    if (open_ == deepest_call) misfit(node, too_deep);
    ++open_;
    Size size = of(function.node());
    size.add({1 + static_cast<std::uint64_t>(function.output_size()), 0, 0});
    --open_;
    if (++size.height > deepest_call) misfit(node, too_deep);
    sizes_[&function] = size;
    return size;
  }

  const Functions& functions_;
  std::uint64_t largest_;
  int open_ = 0;  // functions that are being counted, each in the one before
  // nothing: being counted
  std::unordered_map<const onnx::FunctionProto*, std::optional<Size>> sizes_;
};

class Inliner {
 public:
  Inliner(onnx::ModelProto& model, Opsets& opsets)
      : model_(model), opsets_(opsets), functions_(model) {
    ExpandedSize(model, functions_);
    collect_names(model.graph(), names_);
  }

  void run() { expand(*model_.mutable_graph()); }

 private:
  // What names in a body mean for one call of it.
  struct Scope {
    Names names;
    Attributes attributes;
    const Versions& versions;
  };

  void expand(onnx::GraphProto& graph) {
    Nodes nodes;
    nodes.Swap(graph.mutable_node());
    for (auto& node : nodes) place(std::move(node), *graph.mutable_node());
  }

  // The node, or what stands for it.
  void place(onnx::NodeProto node, Nodes& into) {
    if (const auto* function = functions_.called_by(node)) {
      call(*function, node, into);
      return;
    }
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) expand(*attribute.mutable_g());
    }
    *into.Add() = std::move(node);
  }

  void call(const Function& called, const onnx::NodeProto& node, Nodes& into) {
    const onnx::FunctionProto& function = *called.proto;
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
      misfit(node, fmt::format("{} input(s) and {} output(s), expected at most {} and {}",
                               node.input_size(), node.output_size(), function.input_size(),
                               function.output_size()));
    }
    if (const auto standard = called.versions.find(""); standard != called.versions.end())
      check_opset(fmt::format("the model's function {}", quoted_name(function.name())),
                  standard->second);
    Scope scope{.names = {}, .attributes = {}, .versions = called.versions};
    Names& names = scope.names;
    for (int i = 0; i < function.input_size(); ++i)
      names[function.input(i)] = i < node.input_size() ? node.input(i) : std::string();
    std::unordered_map<std::string, std::string> passed;  // outputs that are inputs
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      const auto [found, fresh] = names.emplace(function.output(i), node.output(i));
      if (!fresh) passed.emplace(node.output(i), found->second);
    }
    for (const auto& attribute : called.defaults) scope.attributes[attribute.name()] = &attribute;
    for (const auto& given : node.attribute()) scope.attributes[given.name()] = &given;
    const std::string prefix =
        fmt::format("{}/", node.name().empty() ? node.op_type() : node.name())
            .substr(0, longest_name);
    for (const auto& inner : function.node()) {
      onnx::NodeProto copy = inner;
      rewrite(copy, scope);
      copy.set_name(
          prefix + (inner.name().empty() ? inner.op_type() : inner.name()).substr(0, longest_name));
      place(std::move(copy), into);
    }
    for (const auto& [output, input] : passed) {
      onnx::NodeProto same;
      same.set_op_type("Identity");
      same.set_name(prefix + "Identity");
      same.add_input(input);
      same.add_output(output);
      place(std::move(same), into);
    }
  }

  std::string renamed(const std::string& name, Names& names) {
    if (name.empty()) return name;
    if (const auto found = names.find(name); found != names.end()) return found->second;
    std::string made;
    do {
      made = fmt::format("{}.{}", name.substr(0, longest_name), next_number_++);
    } while (!names_.insert(made).second);
    names.emplace(name, made);
    return made;
  }

  void rewrite(onnx::NodeProto& node, Scope& scope) {
    for (std::string& input : *node.mutable_input()) input = renamed(input, scope.names);
    for (std::string& output : *node.mutable_output()) output = renamed(output, scope.names);
    if (const auto version = scope.versions.find(canonical_domain(node.domain()));
        version != scope.versions.end() && functions_.called_by(node) == nullptr)
      node.set_domain(opsets_.at_version(node.domain(), version->second));
    auto* own = node.mutable_attribute();
    for (int i = 0; i < own->size();) {
      auto& attribute = *own->Mutable(i);
      if (!attribute.ref_attr_name().empty()) {
        const auto given = scope.attributes.find(attribute.ref_attr_name());
        if (given == scope.attributes.end()) {  // left out: the operator's default
          own->DeleteSubrange(i, 1);
          continue;
        }
        const std::string name = attribute.name();
        attribute = *given->second;
        attribute.set_name(name);
      } else if (attribute.has_g()) {
        rewrite(*attribute.mutable_g(), scope);
      }
      ++i;
    }
  }

  void rewrite(onnx::GraphProto& graph, Scope& scope) {
    for (auto& input : *graph.mutable_input()) input.set_name(renamed(input.name(), scope.names));
    for (auto& tensor : *graph.mutable_initializer())
      tensor.set_name(renamed(tensor.name(), scope.names));
    for (auto& node : *graph.mutable_node()) rewrite(node, scope);
    for (auto& output : *graph.mutable_output())
      output.set_name(renamed(output.name(), scope.names));
  }

  onnx::ModelProto& model_;
  Opsets& opsets_;
  const Functions functions_;
  std::unordered_set<std::string> names_;
  std::size_t next_number_ = 0;
};

}  // namespace

void inline_functions(onnx::ModelProto& model, Opsets& opsets) {
  if (model.functions_size() > 0) Inliner(model, opsets).run();
}

}  // namespace anydim::frontends
