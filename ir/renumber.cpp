#include "ir/renumber.h"

#include <functional>

#include "ir/error.h"

namespace anydim::ir {
namespace {

void append_definitions(const Block& block, const std::function<void(ValueId)>& append) {
  for (const ValueId id : block.parameters) append(id);
  for (const Binding& binding : block.bindings) {
    for (const Block& inner : binding.blocks) append_definitions(inner, append);
    for (const ValueId id : binding.results) append(id);
  }
}

class Renumbering {
 public:
  explicit Renumbering(const std::vector<ValueId>& new_ids) : new_ids_(new_ids) {}

  void ids(std::vector<ValueId>& list) const {
    for (ValueId& id : list) id = of(id);
  }

  void dims(std::vector<Dim>& list) const {
    for (Dim& dim : list) dim = renumbered(dim);
  }

  Dim renumbered(const Dim& dim) const {
    return dim.substitute([this](const DimLeaf& leaf) -> std::optional<Dim> {
      if (leaf.is_symbol()) return std::nullopt;
      return Dim::value(of(leaf.value), leaf.element);
    });
  }

  void type(Type& type) const {
    dims(type.tensor.dims);
    for (Type& element : type.elements) this->type(element);
    for (Type& result : type.results) this->type(result);
  }

  void block(Block& block) const {
    ids(block.parameters);
    ids(block.results);
    for (Binding& binding : block.bindings) {
      ids(binding.operands);
      ids(binding.results);
      dims(binding.dims);
      for (Block& inner : binding.blocks) this->block(inner);
    }
  }

 private:
  ValueId of(ValueId id) const { return id < new_ids_.size() ? new_ids_[id] : id; }

  const std::vector<ValueId>& new_ids_;
};

}  // namespace

std::vector<ValueId> definition_order(const Function& function) {
  std::vector<ValueId> order;
  std::vector<bool> seen(function.values.size());
  const auto append = [&](ValueId id) {
    if (id >= seen.size() || seen[id]) return;
    seen[id] = true;
    order.push_back(id);
  };
  append_definitions(function.body, append);
  for (ValueId id = 0; id < seen.size(); ++id) append(id);
  return order;
}

void renumber(Function& function, const std::vector<ValueId>& order) {
  internal_check(order.size() == function.values.size(),
                 "an order of values names each of them once");
  std::vector<ValueId> new_ids(order.size());
  std::vector<Value> values;
  for (ValueId i = 0; i < order.size(); ++i) {
    new_ids[order[i]] = i;
    values.push_back(std::move(function.values[order[i]]));
  }
  function.values = std::move(values);
  const Renumbering renumbering(new_ids);
  for (Value& value : function.values) renumbering.type(value.type);
  renumbering.block(function.body);
  for (const std::string& name : function.symbols.names()) {
    SymbolInfo symbol = *function.symbols.find(name);
    if (!symbol.below) continue;
    symbol.below = renumbering.renumbered(*symbol.below);
    function.symbols.declare(name, std::move(symbol));
  }
}

}  // namespace anydim::ir
