// Symbols that end with the block that opens them.
#include <algorithm>

#include "ir/shapes/function_inference.h"

namespace anydim::ir {

FunctionInferrer::Scope FunctionInferrer::open_scope(std::span<const Block> blocks) const {
  Scope scope;
  for (const Block& block : blocks) {
    collect_values(block, scope.values);
    collect_bound_symbols(block, scope.symbols);
  }
  return scope;
}

bool FunctionInferrer::holds(const Scope& scope, const DimLeaf& leaf) const {
  if (!leaf.is_symbol()) return scope.values.contains(leaf.value);
  const auto opener = opener_of_.find(leaf.symbol);
  return scope.symbols.contains(leaf.symbol) ||
         (opener != opener_of_.end() && scope.values.contains(opener->second));
}

// Symbols that a binding binds, as far as nothing before it did.
std::vector<std::string> FunctionInferrer::bound_by(const Binding& binding) const {
  std::vector<std::string> names;
  if (binding.op != Op::bind && binding.op != Op::check_shape) return names;
  for (const Dim& dim : binding.dims) {
    if (dim.kind() != Dim::Kind::Symbol || (binding.op == Op::bind && !names.empty())) continue;
    const std::string& name = dim.leaf().symbol;
    if (!parameter_symbols_.contains(name) && !bound_.contains(name)) names.push_back(name);
  }
  return names;
}

void FunctionInferrer::collect_bound_symbols(const Block& block,
                                             std::set<std::string, std::less<>>& symbols) const {
  for (const Binding& binding : block.bindings) {
    const std::vector<std::string> names = bound_by(binding);
    symbols.insert(names.begin(), names.end());
    for (const Block& inner : binding.blocks) collect_bound_symbols(inner, symbols);
  }
}

void FunctionInferrer::collect_values(const Block& block, std::set<ValueId>& values) {
  values.insert(block.parameters.begin(), block.parameters.end());
  for (const Binding& binding : block.bindings) {
    values.insert(binding.results.begin(), binding.results.end());
    for (const Block& inner : binding.blocks) collect_values(inner, values);
  }
}

// The dim as it is seen outside of the scope, at a place of a value there.
Dim FunctionInferrer::closed(const Dim& dim, const Scope& scope, ValueId value, std::size_t axis) {
  const std::set<DimLeaf> leaves = dim.leaves();
  const bool escapes =
      std::ranges::any_of(leaves, [&](const DimLeaf& leaf) { return holds(scope, leaf); });
  return escapes ? opened(value, axis) : dim;
}

// An unbacked symbol for a dim that only the run tells. Where an earlier inference opened one at
// this place it is opened again, because literals that passes have written since may mention it.
Dim FunctionInferrer::opened(ValueId value, std::size_t axis) {
  const auto known = openers_.find({value, axis});
  if (known == openers_.end()) {
    const Dim symbol = function_.symbols.fresh("d");
    openers_.emplace(std::pair(value, axis), symbol);
    opener_of_.emplace(symbol.leaf().symbol, value);
    return symbol;
  }
  const std::string& name = known->second.leaf().symbol;
  if (!function_.symbols.contains(name)) {
    SymbolInfo info;
    info.unbacked = true;
    function_.symbols.declare(name, info);
  }
  return known->second;
}

// Where the types of an earlier inference mention each unbacked symbol first, in program order. A
// symbol that was bound before belongs to its binding's block and not to the first type with it,
// which may stand in a block further in.
void FunctionInferrer::find_openers(const Block& block, std::set<std::string, std::less<>> bound) {
  const auto visit = [&](const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) {
      const std::vector<Dim>& dims = function_.values[id].type.tensor.dims;
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        if (dims[axis].kind() != Dim::Kind::Symbol) continue;
        const std::string& name = dims[axis].leaf().symbol;
        const SymbolInfo* info = function_.symbols.find(name);
        if (info == nullptr || !info->unbacked || parameter_symbols_.contains(name)) continue;
        if (bound.contains(name)) continue;
        if (opener_of_.emplace(name, id).second) openers_.emplace(std::pair(id, axis), dims[axis]);
      }
    }
  };
  if (&block != &function_.body) visit(block.parameters);
  for (const Binding& binding : block.bindings) {
    for (const Block& inner : binding.blocks) find_openers(inner, bound);
    visit(binding.results);
    for (std::string& name : bound_by(binding)) {
      if (!opener_of_.contains(name)) bound.insert(std::move(name));
    }
  }
}

void FunctionInferrer::remove_unused_unbacked_symbols() {
  std::set<DimLeaf> used;
  for (const Value& value : function_.values) {
    for (const Dim& dim : value.type.tensor.dims) dim.collect_leaves(used);
  }
  for (const ShapeData& shape_data : result_.shape_data) {
    if (!shape_data) continue;
    for (const Dim& dim : *shape_data) dim.collect_leaves(used);
  }
  for (const Requirement& requirement : result_.requirements) {
    requirement.precondition.left.collect_leaves(used);
    requirement.precondition.right.collect_leaves(used);
  }
  collect_literals(function_.body, used);
  // What bounds a symbol in use is in use.
  for (std::size_t before = 0; before != used.size();) {
    before = used.size();
    const std::set<DimLeaf> known = used;
    for (const DimLeaf& leaf : known) {
      const SymbolInfo* info = leaf.is_symbol() ? function_.symbols.find(leaf.symbol) : nullptr;
      if (info != nullptr && info->below) info->below->collect_leaves(used);
    }
  }
  const std::vector<std::string> names = function_.symbols.names();
  for (const std::string& name : names) {
    if (function_.symbols.find(name)->unbacked && !used.contains({.symbol = name}))
      function_.symbols.remove(name);
  }
}

void FunctionInferrer::collect_literals(const Block& block, std::set<DimLeaf>& used) {
  for (const Binding& binding : block.bindings) {
    for (const Dim& dim : binding.dims) dim.collect_leaves(used);
    for (const Block& inner : binding.blocks) collect_literals(inner, used);
  }
}

}  // namespace anydim::ir
