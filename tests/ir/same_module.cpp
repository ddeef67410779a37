#include "tests/ir/same_module.h"

#include <bit>
#include <map>

#include "ir/text/print.h"

namespace anydim::ir::test {
namespace {

class Comparison {
 public:
  Comparison(const Function& left, const Function& right) : left_(left), right_(right) {}

  std::string run() {
    differ(left_.name == right_.name, "name of function " + left_.name);
    differ(left_.result_names == right_.result_names, "result names of " + left_.name);
    differ(left_.symbols.names() == right_.symbols.names(), "symbols of " + left_.name);
    match_names();
    for (const std::string& name : left_.symbols.names()) {
      if (right_.symbols.contains(name))
        symbol(name, *left_.symbols.find(name), *right_.symbols.find(name));
    }
    block(left_.body, right_.body);
    return first_;
  }

 private:
  void differ(bool same, const std::string& what) {
    if (!same && first_.empty()) first_ = what;
  }

  // Names are unique in a function, so they pair the ids of both sides.
  void match_names() {
    std::map<std::string, ValueId> ids;
    for (ValueId id = 0; id < right_.values.size(); ++id) ids[right_.values[id].name] = id;
    for (ValueId id = 0; id < left_.values.size(); ++id) {
      if (const auto found = ids.find(left_.values[id].name); found != ids.end())
        pairs_[id] = found->second;
    }
    pairs_[no_value] = no_value;
  }

  void value(ValueId left, ValueId right) {
    const auto found = pairs_.find(left);
    differ(found != pairs_.end() && found->second == right, "value");
    if (!first_.empty() || left == no_value) return;
    differ(same_type(left_.values[left].type, right_.values[right].type),
           "type of " + left_.values[left].name);
  }

  // Dims over tensors are compared as text, because their form depends on the ids.
  bool same_dim(const Dim& left, const Dim& right) const {
    for (const DimLeaf& leaf : left.leaves()) {
      if (!leaf.is_symbol()) return print(left_, left) == print(right_, right);
    }
    return left == right;
  }

  bool same_type(const Type& left, const Type& right) const {
    bool same = left.kind == right.kind && left.tensor.dtype == right.tensor.dtype &&
                left.elements.size() == right.elements.size() &&
                left.results.size() == right.results.size() &&
                left.tensor.dims.size() == right.tensor.dims.size();
    for (std::size_t i = 0; same && i < left.tensor.dims.size(); ++i)
      same = same_dim(left.tensor.dims[i], right.tensor.dims[i]);
    for (std::size_t i = 0; same && i < left.elements.size(); ++i)
      same = same_type(left.elements[i], right.elements[i]);
    for (std::size_t i = 0; same && i < left.results.size(); ++i)
      same = same_type(left.results[i], right.results[i]);
    return same;
  }

  void symbol(const std::string& name, const SymbolInfo& left, const SymbolInfo& right) {
    differ(left.low == right.low && left.high == right.high && left.multiple == right.multiple,
           "range of symbol " + name);
    differ(left.reason == right.reason && left.unbacked == right.unbacked,
           "reason of symbol " + name);
    differ(left.below.has_value() == right.below.has_value(), "bound of symbol " + name);
    if (left.below && right.below)
      differ(same_dim(*left.below, *right.below), "bound of symbol " + name);
  }

  void values(const std::vector<ValueId>& left, const std::vector<ValueId>& right,
              const std::string& what) {
    differ(left.size() == right.size(), "number of " + what);
    for (std::size_t i = 0; first_.empty() && i < left.size(); ++i) value(left[i], right[i]);
  }

  static bool same_attribute(const Attribute& left, const Attribute& right) {
    if (left.index() != right.index()) return false;
    if (const auto* tensor = std::get_if<Tensor>(&left))
      return tensor->same_bits(std::get<Tensor>(right));
    if (const auto* real = std::get_if<double>(&left)) {
      return std::bit_cast<std::uint64_t>(*real) ==
             std::bit_cast<std::uint64_t>(std::get<double>(right));
    }
    return std::visit(
        [&](const auto& held) {
          using Held = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<Held, Tensor>) {
            return false;
          } else {
            return held == std::get<Held>(right);
          }
        },
        left);
  }

  void binding(const Binding& left, const Binding& right) {
    const std::string what = std::string(info(left.op).text) + " " + left.source;
    differ(left.op == right.op && left.source == right.source && left.callee == right.callee, what);
    values(left.operands, right.operands, "operands of " + what);
    values(left.results, right.results, "results of " + what);
    differ(left.attributes.size() == right.attributes.size(), "number of attributes of " + what);
    for (const auto& [name, attribute] : left.attributes) {
      const auto found = right.attributes.find(name);
      differ(found != right.attributes.end() && same_attribute(attribute, found->second),
             "attribute " + name + " of " + what);
    }
    differ(left.dims.size() == right.dims.size(), "number of dims of " + what);
    for (std::size_t i = 0; first_.empty() && i < left.dims.size(); ++i)
      differ(same_dim(left.dims[i], right.dims[i]), "dims of " + what);
    differ(left.blocks.size() == right.blocks.size(), "number of blocks of " + what);
    for (std::size_t i = 0; first_.empty() && i < left.blocks.size(); ++i)
      block(left.blocks[i], right.blocks[i]);
  }

  void block(const Block& left, const Block& right) {
    values(left.parameters, right.parameters, "parameters");
    differ(left.bindings.size() == right.bindings.size(), "number of bindings");
    for (std::size_t i = 0; first_.empty() && i < left.bindings.size(); ++i)
      binding(left.bindings[i], right.bindings[i]);
    values(left.results, right.results, "results");
  }

  const Function& left_;
  const Function& right_;
  std::map<ValueId, ValueId> pairs_;
  std::string first_;
};

}  // namespace

std::string difference(const Module& left, const Module& right) {
  if (left.functions.size() != right.functions.size()) return "number of functions";
  if (left.regions.size() != right.regions.size()) return "number of regions";
  for (std::size_t i = 0; i < left.functions.size(); ++i) {
    if (auto found = Comparison(left.functions[i], right.functions[i]).run(); !found.empty())
      return found;
  }
  for (std::size_t i = 0; i < left.regions.size(); ++i) {
    const Region& one = left.regions[i];
    const Region& other = right.regions[i];
    if (one.name != other.name || one.weights != other.weights ||
        one.weights_of_4_bits != other.weights_of_4_bits)
      return "region " + one.name;
    if (auto found = Comparison(one.body, other.body).run(); !found.empty())
      return "region " + one.name + ": " + found;
  }
  return {};
}

}  // namespace anydim::ir::test
