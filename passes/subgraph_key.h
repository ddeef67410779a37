// What makes two subgraphs of one function the same work: layers of a model repeat, so fusion
// decides about each kind of subgraph once.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "ir/module.h"
#include "passes/stored_values.h"

namespace anydim::passes {

// Ops, attributes, dims, the types of inputs and results, and which of them meet where; not names
// and sources. Subgraphs with equal keys have equal regions.
struct SubgraphKey {
  std::vector<std::uint64_t> words;  // all but the dims
  std::vector<ir::Dim> dims;         // in the order in which they stand
  // A total order, stable between runs.
  friend bool operator<(const SubgraphKey& a, const SubgraphKey& b) {
    return std::tie(a.words, a.dims) < std::tie(b.words, b.dims);
  }
};

// A stored constant makes an input a weight.
SubgraphKey subgraph_key(const ir::Function& function, std::span<const ir::Binding> bindings,
                         std::span<const ir::ValueId> outputs, const StoredValues& stored);

}  // namespace anydim::passes
