// Numbers every 64-bit value of one function's frame: leaves first, then the expressions of each
// shape stage.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/dims/dim.h"
#include "ir/program.h"

namespace anydim::passes {

// Expressions get provisional ids while lowering walks the function; slots are known once all
// stages are. Blocks are scopes: what an inner block knows or computes is not there after it,
// because it may not have run.
class SlotTable {
 public:
  using Id = std::int32_t;

  // A block whose first stage is `stage` begins: its expressions are computed there or later. The
  // function's own scope is opened the same way.
  void open_scope(std::int32_t stage);
  void close_scope();
  std::int32_t first_stage() const { return scopes_.back().first_stage; }

  // `stage` is the first stage that knows the leaf. `input`: its symbol is bound from the
  // function's inputs.
  void add_leaf(const ir::DimLeaf& leaf, std::int32_t stage, bool input = false);
  // A leaf with the slot of `id`, which something else fills.
  void alias_leaf(const ir::DimLeaf& leaf, Id id, std::int32_t stage);
  bool knows(const ir::DimLeaf& leaf) const { return find(leaf) != nullptr; }
  // A slot that instructions fill, for a number that no dim names.
  Id add_variable();
  // The id of an expression whose leaves are all known; equal expressions in reach have one id.
  Id add(const ir::Dim& dim);
  std::int32_t stage_of(const ir::Dim& dim) const;

  // Fixes slots; fills `stages` (leaves, shapes, first) and the code's leaf_symbols and slots.
  void finish(std::vector<ir::Program::Stage>& stages, ir::Code& code);
  ir::Code::Slot slot(Id id) const {
    return slots_[static_cast<std::size_t>(id)];
  }  // after finish()

 private:
  struct Leaf {
    Id id = 0;
    std::int32_t stage = 0;
  };
  struct Scope {
    std::int32_t first_stage = 0;
    std::map<ir::DimLeaf, Leaf> leaves{};
    std::map<ir::Dim, Id> ids{};
  };
  struct Entry {
    std::int32_t stage = -1;       // -1: a leaf or variable
    ir::Code::Slot slot = -1;      // of a leaf or variable
    ir::Dim dim;                   // of an expression
    std::map<ir::DimLeaf, Id> of;  // its leaves
  };
  const Leaf* find(const ir::DimLeaf& leaf) const;
  Id add_leaf_slot(std::string symbol);

  std::vector<Scope> scopes_;
  std::vector<Entry> entries_;
  std::vector<std::string> leaf_symbols_;
  std::vector<ir::Code::Slot> slots_;
};

}  // namespace anydim::passes
