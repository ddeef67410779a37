// Looking through a function's graph for patterns: definitions, constants and ops up to operand
// order.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "passes/element_range.h"

namespace anydim::passes {

// Definitions of one block, for matching upwards from a value.
class PatternGraph {
 public:
  PatternGraph(const ir::Function& function, const ir::Block& block);

  const ir::Binding* definition(ir::ValueId value) const;
  // The definition where it applies `op`.
  const ir::Binding* applied(ir::ValueId value, ir::Op op) const;
  // The number that every element of a constant has, seen through casts, broadcasts and reshapes;
  // nullopt otherwise.
  std::optional<double> number(ir::ValueId value) const;
  bool is_number(ir::ValueId value, double wanted, double tolerance = 1e-6) const;
  // A commutative binding's operands as (number, other), where one of them is a number.
  std::optional<std::pair<double, ir::ValueId>> scaled(const ir::Binding& binding) const;
  // It bounds the elements of a value, whatever a call's ids and other integers are; infinity where
  // there is no bound, and in blocks other than the body of the function.
  double magnitude_at_most(ir::ValueId value) const;
  const ir::TensorType& type(ir::ValueId value) const { return function_.tensor_type(value); }
  const ir::Function& function() const { return function_; }

 private:
  const ir::Function& function_;
  const ir::Block& block_;
  std::vector<const ir::Binding*> definitions_;
  mutable std::optional<ElementRanges> ranges_;  // made when first asked for
};

// Where a pattern ends in `binding`, the bindings that replace it: the last has the same result;
// earlier ones are new (transposes of views). Values in between are left for dead code, so a
// pattern may be used again elsewhere. Rules may add values to `function`.
using PatternRule = std::optional<std::vector<ir::Binding>> (*)(ir::Function& function,
                                                                const PatternGraph& graph,
                                                                const ir::Binding& binding);

std::optional<std::vector<ir::Binding>> match_gelu(ir::Function& function,
                                                   const PatternGraph& graph,
                                                   const ir::Binding& binding);
std::optional<std::vector<ir::Binding>> match_layer_norm(ir::Function& function,
                                                         const PatternGraph& graph,
                                                         const ir::Binding& binding);
std::optional<std::vector<ir::Binding>> match_softmax(ir::Function& function,
                                                      const PatternGraph& graph,
                                                      const ir::Binding& binding);
std::optional<std::vector<ir::Binding>> match_attention(ir::Function& function,
                                                        const PatternGraph& graph,
                                                        const ir::Binding& binding);

}  // namespace anydim::passes
