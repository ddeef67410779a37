// What makes two subgraphs of one function the same work: layers of a model repeat, so fusion
// decides about each kind of subgraph once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/module.h"

namespace anydim::passes {

// Ops, attributes, dims, the types of inputs and results, and which of them meet where; not names
// and sources. Hashes stand for dims and attributes, 64 bits each.
using SubgraphKey = std::vector<std::uint64_t>;

// `constants[v]`: value v is a stored constant, which makes an input a weight.
SubgraphKey subgraph_key(const ir::Function& function, std::span<const ir::Binding> bindings,
                         std::span<const ir::ValueId> outputs, const std::vector<bool>& constants);

}  // namespace anydim::passes
