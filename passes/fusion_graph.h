// The uses and order of one block's bindings, for fusion.
#pragma once

#include <cstddef>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace anydim::passes {

// Values of which dims of the function's types mention elements: these are read on the host.
std::unordered_set<ir::ValueId> values_in_types(const ir::Function& function);

// Takes time and memory by the block alone, as a function may have many.
class FusionGraph {
 public:
  // `in_types`: values_in_types(function), which outlives the graph.
  FusionGraph(const ir::Function& function, const ir::Block& block,
              const std::unordered_set<ir::ValueId>& in_types);

  // Distinct bindings of the block that read the value, ascending.
  const std::vector<std::size_t>& users(ir::ValueId value) const;
  // Read by a nested block, a result of the block, or the host.
  bool escapes(ir::ValueId value) const {
    return escaping_.contains(value) || in_types_.contains(value);
  }
  // The binding of the block that defines the value, or -1.
  std::ptrdiff_t producer(ir::ValueId value) const {
    const auto found = producer_.find(value);
    return found == producer_.end() ? -1 : found->second;
  }
  // Pairs of bindings, the second of which needs the first without reading its results as operands.
  const std::vector<std::pair<std::size_t, std::size_t>>& openers() const { return openers_; }
  // True where a path leads from one of `from` to `to` through a binding outside `group`.
  bool path_around(const std::set<std::size_t>& group, std::size_t to) const;

 private:
  void find_openers(const ir::Function& function);

  const ir::Block& block_;
  const std::unordered_set<ir::ValueId>& in_types_;
  std::unordered_map<ir::ValueId, std::vector<std::size_t>> users_;
  std::unordered_set<ir::ValueId> escaping_;
  std::unordered_map<ir::ValueId, std::ptrdiff_t> producer_;
  std::vector<std::pair<std::size_t, std::size_t>> openers_;
};

// An order of all bindings in which each group's members stand together, at the place of its last;
// `owner[i]` is a group or -1. Bindings without an owner keep their order.
std::vector<std::size_t> contiguous_order(const FusionGraph& graph, const ir::Block& block,
                                          const std::vector<std::ptrdiff_t>& owner);

}  // namespace anydim::passes
