#include "passes/slot_table.h"

#include <algorithm>

#include "ir/error.h"

namespace anydim::passes {

using namespace ir;

void SlotTable::add_leaf(const DimLeaf& leaf, std::int32_t stage) {
  if (leaves_.contains(leaf)) return;
  leaves_.emplace(leaf, Leaf{static_cast<Program::Slot>(leaf_order_.size()), stage});
  leaf_order_.push_back(leaf);
}

SlotTable::Id SlotTable::add(const Dim& dim) {
  auto [found, fresh] = ids_.emplace(dim, static_cast<Id>(expressions_.size()));
  if (fresh) expressions_.push_back(dim);
  return found->second;
}

std::int32_t SlotTable::stage_of(const Dim& dim) const {
  std::int32_t stage = 0;
  for (const DimLeaf& leaf : dim.leaves()) {
    auto found = leaves_.find(leaf);
    internal_check(found != leaves_.end(), "every leaf of a size is bound: " + dim.to_string());
    stage = std::max(stage, found->second.stage);
  }
  return stage;
}

std::int32_t SlotTable::finish(std::vector<Program::Stage>& stages, std::vector<std::string>& leaf_symbols) {
  for (const DimLeaf& leaf : leaf_order_) leaf_symbols.push_back(leaf.symbol);
  slots_.assign(expressions_.size(), -1);
  std::vector<std::vector<std::size_t>> by_stage(stages.size());
  for (std::size_t i = 0; i < expressions_.size(); ++i) {
    const Dim& dim = expressions_[i];
    if (dim.kind() == Dim::Kind::Symbol || dim.kind() == Dim::Kind::Value) slots_[i] = leaf_slot(dim.leaf());
    else by_stage[static_cast<std::size_t>(stage_of(dim))].push_back(i);
  }
  auto next = static_cast<Program::Slot>(leaf_order_.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Program::Stage& stage = stages[s];
    stage.first = next;
    std::set<DimLeaf> leaves;
    for (std::size_t i : by_stage[s]) {
      slots_[i] = next++;
      stage.shapes.expressions.push_back(expressions_[i]);
      expressions_[i].collect_leaves(leaves);
    }
    for (const DimLeaf& leaf : leaves) {
      stage.shapes.leaves.push_back(leaf);
      stage.leaves.push_back(leaf_slot(leaf));
    }
  }
  return next;
}

}  // namespace anydim::passes
