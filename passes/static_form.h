// One binding's steps towards static form: the rules of dynamic_to_static.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/module.h"
#include "ir/shapes/infer.h"

namespace anydim::passes {

// What a rule may read.
struct RuleFacts {
  ir::Function& function;  // rules add values for literals
  const ir::FunctionInference& inference;
  const std::vector<const ir::Tensor*>& constants;  // by value id; null: not a constant
  const std::vector<bool>& literals;  // by value id: defined by constant, shape or dim

  const ir::ShapeData& shape_data(ir::ValueId value) const;
};

// The value that the binding's one result equals, where the op changes nothing (cast to the same
// type, reshape to the same dims, ...).
std::optional<ir::ValueId> unchanged(const RuleFacts& facts, const ir::Binding& binding);

// An integer or bool result with known elements as a literal: a constant where all are numbers,
// else shape or dim.
std::optional<ir::Binding> as_literal(const RuleFacts& facts, const ir::Binding& binding);

// A long integer constant that counts up or down evenly (position ids), as an arange: its elements
// are then known at any index. The last of the bindings has the constant's result; empty where it
// is no progression.
std::vector<ir::Binding> as_progression(const RuleFacts& facts, const ir::Binding& binding);

// A small result of constants, computed.
std::optional<ir::Binding> folded(const RuleFacts& facts, const ir::Binding& binding);

// A dynamic op in static form, where every operand that decides its shape is constant; else with
// shape literals in place of operands whose elements are known, appended to `literals` (to be
// inserted before it). nullopt: nothing to change.
std::optional<ir::Binding> resolved(const RuleFacts& facts, const ir::Binding& binding,
                                    std::vector<ir::Binding>& literals);

// Why a dynamic op could not be resolved, naming the operand; empty where it reads literals only.
std::string why_dynamic(const RuleFacts& facts, const ir::Binding& binding);

}  // namespace anydim::passes
