// Places in a kernel under construction: where a leaf of index expressions is defined, and where
// code that needs no more than it goes.
#pragma once

#include <llvm/IR/Instruction.h>
#include <llvm/IR/Value.h>

#include <map>
#include <memory>
#include <utility>

#include "codegen_cpu/names.h"
#include "ir/loops/step_placer.h"

namespace anydim::codegen_cpu {

using llvm::Value;

// One loop variable spread over the lanes of vectors: lane l has the value (the variable's in its
// scope) + l.
struct Lanes {
  ir::DimLeaf variable{};  // of no name: no vectors
  unsigned width = 1;
  llvm::Value* mask = nullptr;  // <width x i1>: lanes that exist (a loop's tail); null: all
  bool aligned = false;         // the variable is a multiple of width in lane 0
};

// A scope is a loop body, a guarded block or the kernel's entry. Code always goes before the
// scope's anchor, an instruction of the block where the scope currently ends; while an inner scope
// is open the anchor stands before it, so code emitted through the outer scope is hoisted out of
// the inner one. Scopes nest like the C++ objects do.
class Scope {
 public:
  // A scope of its own block, ending at `anchor`.
  Scope(Scope* parent, llvm::Instruction* anchor)
      : parent_(parent), anchor_(std::make_shared<llvm::Instruction*>(anchor)),
        depth_(parent ? parent->depth_ + 1 : 0) {
    if (parent) lanes_ = parent->lanes_;
  }
  // A scope within the same block as `parent`: new leaves, same anchor. For the copies of an
  // unrolled body.
  explicit Scope(Scope& parent)
      : parent_(&parent), anchor_(parent.anchor_), depth_(parent.depth_ + 1),
        lanes_(parent.lanes_) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  Scope* parent() const { return parent_; }
  int depth() const { return depth_; }
  llvm::Instruction* anchor() const { return *anchor_; }
  void move_anchor(llvm::Instruction* anchor) { *anchor_ = anchor; }

  // Leaves visible here map to i64, or to a vector of i64 for steps that differ between lanes.
  void define(const ir::DimLeaf& leaf, llvm::Value* value) { leaves_[leaf] = value; }
  llvm::Value* find(const ir::DimLeaf& leaf, Scope** home = nullptr) {
    for (Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      if (const auto found = scope->leaves_.find(leaf); found != scope->leaves_.end()) {
        if (home) *home = scope;
        return found->second;
      }
    }
    return nullptr;
  }

  const Lanes& lanes() const { return lanes_; }
  void set_lanes(Lanes lanes) { lanes_ = std::move(lanes); }

  // Values already computed in this very scope.
  std::map<std::pair<ir::Dim, bool>, llvm::Value*> dims;  // bool: spread over lanes
  ir::PlacedValues<llvm::Value*> values;
  std::map<std::pair<llvm::Value*, ir::Dim>, llvm::Value*> pointers;

 private:
  Scope* parent_;
  std::shared_ptr<llvm::Instruction*> anchor_;
  int depth_;
  std::map<ir::DimLeaf, llvm::Value*> leaves_;
  Lanes lanes_;
};

}  // namespace anydim::codegen_cpu
