#include "passes/slot_table.h"

#include <algorithm>

#include "ir/error.h"

namespace anydim::passes {

using namespace ir;

void SlotTable::open_scope(std::int32_t stage) { scopes_.push_back({.first_stage = stage}); }

void SlotTable::close_scope() { scopes_.pop_back(); }

const SlotTable::Leaf* SlotTable::find(const DimLeaf& leaf) const {
  for (std::size_t i = scopes_.size(); i-- > 0;)
    if (auto found = scopes_[i].leaves.find(leaf); found != scopes_[i].leaves.end())
      return &found->second;
  return nullptr;
}

SlotTable::Id SlotTable::add_leaf_slot(std::string symbol) {
  Entry entry;
  entry.slot = static_cast<Code::Slot>(leaf_symbols_.size());
  leaf_symbols_.push_back(std::move(symbol));
  entries_.push_back(std::move(entry));
  return static_cast<Id>(entries_.size() - 1);
}

SlotTable::Id SlotTable::add_variable() { return add_leaf_slot(""); }

void SlotTable::add_leaf(const DimLeaf& leaf, std::int32_t stage, bool input) {
  if (knows(leaf)) return;
  scopes_.back().leaves.emplace(leaf, Leaf{add_leaf_slot(input ? leaf.symbol : ""), stage});
}

void SlotTable::alias_leaf(const DimLeaf& leaf, Id id, std::int32_t stage) {
  scopes_.back().leaves.emplace(leaf, Leaf{id, stage});
}

SlotTable::Id SlotTable::add(const Dim& dim) {
  if (dim.kind() == Dim::Kind::Symbol || dim.kind() == Dim::Kind::Value) {
    const Leaf* leaf = find(dim.leaf());
    if (leaf == nullptr) internal_error("a leaf is known where it is needed: " + dim.to_string());
    return leaf->id;
  }
  for (const Scope& scope : scopes_)
    if (auto found = scope.ids.find(dim); found != scope.ids.end()) return found->second;
  Entry entry;
  entry.stage = stage_of(dim);
  entry.dim = dim;
  for (const DimLeaf& leaf : dim.leaves()) entry.of.emplace(leaf, find(leaf)->id);
  entries_.push_back(std::move(entry));
  auto id = static_cast<Id>(entries_.size() - 1);
  scopes_.back().ids.emplace(dim, id);
  return id;
}

std::int32_t SlotTable::stage_of(const Dim& dim) const {
  std::int32_t stage = scopes_.back().first_stage;
  for (const DimLeaf& leaf : dim.leaves()) {
    const Leaf* found = find(leaf);
    if (found == nullptr) internal_error("every leaf of a size is known: " + dim.to_string());
    stage = std::max(stage, found->stage);
  }
  return stage;
}

void SlotTable::finish(std::vector<Program::Stage>& stages, Code& code) {
  code.leaf_symbols = leaf_symbols_;
  slots_.assign(entries_.size(), -1);
  std::vector<std::vector<std::size_t>> by_stage(stages.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].stage < 0) slots_[i] = entries_[i].slot;
    else by_stage[static_cast<std::size_t>(entries_[i].stage)].push_back(i);
  }
  auto next = static_cast<Code::Slot>(leaf_symbols_.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (by_stage[s].empty()) continue;
    Program::Stage& stage = stages[s];
    stage.first = next;
    std::map<DimLeaf, Id> leaves;
    for (std::size_t i : by_stage[s]) {
      slots_[i] = next++;
      stage.shapes.expressions.push_back(entries_[i].dim);
      leaves.insert(entries_[i].of.begin(), entries_[i].of.end());
    }
    for (const auto& [leaf, id] : leaves) {
      stage.shapes.leaves.push_back(leaf);
      stage.leaves.push_back(slots_[static_cast<std::size_t>(id)]);
    }
  }
  code.slots = next;
}

}  // namespace anydim::passes
