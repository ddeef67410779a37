// What fusion asks of the operands of products in a block.
#pragma once

#include <cstddef>
#include <set>

#include "passes/fusion_graph.h"
#include "passes/stored_values.h"

namespace anydim::passes {

// All that it is given outlives it; bindings of the block may be put in another order between
// questions.
class ProductOperands {
 public:
  ProductOperands(const ir::Function& function, const ir::Block& block, const StoredValues& stored)
      : function_(function), block_(block), stored_(stored) {}

  // Values that reach a matrix operand of the members' products through views and conversions
  // between 16 bits and wider numbers.
  std::set<ir::ValueId> operands_of(const FusionGraph& graph,
                                    const std::set<std::size_t>& members) const;
  // Bytes of a weight, which may be less their zero points, times their scales, all constants
  // behind views, or their conversion: a product reads a fourth of what they would be in memory.
  bool makes_weight_real(const FusionGraph& graph, const ir::Binding& binding) const;

 private:
  // Bytes less their zero points.
  bool is_centred_weight(const FusionGraph& graph, const ir::Binding& binding) const;
  bool is_constant_behind_views(const FusionGraph& graph, ir::ValueId value) const;

  const ir::Function& function_;
  const ir::Block& block_;
  const StoredValues& stored_;
};

}  // namespace anydim::passes
