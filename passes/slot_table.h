// Numbers every 64-bit value of a program: leaves first, then the expressions of each shape stage.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/dim.h"
#include "ir/program.h"

namespace anydim::passes {

// Expressions get provisional ids while lowering walks the program; slots are known once all stages are.
class SlotTable {
 public:
  using Id = std::int32_t;

  // `stage` is the first stage that knows the leaf.
  void add_leaf(const ir::DimLeaf& leaf, std::int32_t stage);
  bool knows(const ir::DimLeaf& leaf) const { return leaves_.contains(leaf); }
  // The id of an expression whose leaves are all known; equal expressions have one id.
  Id add(const ir::Dim& dim);
  std::int32_t stage_of(const ir::Dim& dim) const;

  // Fixes slots; fills `stages` (leaves, shapes, first) and `leaf_symbols`, and returns the number of slots.
  std::int32_t finish(std::vector<ir::Program::Stage>& stages, std::vector<std::string>& leaf_symbols);
  ir::Program::Slot slot(Id id) const { return slots_[static_cast<std::size_t>(id)]; }          // after finish()
  ir::Program::Slot leaf_slot(const ir::DimLeaf& leaf) const { return leaves_.at(leaf).slot; }  // at any time

 private:
  struct Leaf {
    ir::Program::Slot slot = 0;
    std::int32_t stage = 0;
  };
  std::map<ir::DimLeaf, Leaf> leaves_;
  std::vector<ir::DimLeaf> leaf_order_;
  std::map<ir::Dim, Id> ids_;
  std::vector<ir::Dim> expressions_;
  std::vector<ir::Program::Slot> slots_;
};

}  // namespace anydim::passes
