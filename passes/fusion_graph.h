// The uses and order of one block's bindings, for fusion.
#pragma once

#include <cstddef>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace anydim::passes {

class FusionGraph {
 public:
  FusionGraph(const ir::Function& function, const ir::Block& block);

  // Distinct bindings of the block that read the value, ascending.
  const std::vector<std::size_t>& users(ir::ValueId value) const;
  // Read by a nested block or a result of the block.
  bool escapes(ir::ValueId value) const { return escaping_[value]; }
  // The binding of the block that defines the value, or -1.
  std::ptrdiff_t producer(ir::ValueId value) const { return producer_[value]; }
  // Pairs of bindings, the second of which needs the first without reading its results as operands.
  const std::vector<std::pair<std::size_t, std::size_t>>& openers() const { return openers_; }
  // True where a path leads from one of `from` to `to` through a binding outside `group`.
  bool path_around(const std::set<std::size_t>& group, std::size_t to) const;

 private:
  void find_openers(const ir::Function& function);

  const ir::Block& block_;
  std::vector<std::vector<std::size_t>> users_;
  std::vector<bool> escaping_;
  std::vector<std::ptrdiff_t> producer_;
  std::vector<std::pair<std::size_t, std::size_t>> openers_;
};

// An order of all bindings in which each group's members stand together, at the place of its last; `owner[i]` is a group or -1. Bindings
// without an owner keep their order.
std::vector<std::size_t> contiguous_order(const FusionGraph& graph, const ir::Block& block, const std::vector<std::ptrdiff_t>& owner);

}  // namespace anydim::passes
