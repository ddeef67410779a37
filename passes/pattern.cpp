#include "passes/pattern.h"

#include <cmath>
#include <limits>

namespace anydim::passes {

using namespace ir;

PatternGraph::PatternGraph(const Function& function, const Block& block)
    : function_(function), block_(block), definitions_(function.values.size(), nullptr) {
  for (const Binding& binding : block.bindings)
    for (ValueId result : binding.results) definitions_[result] = &binding;
}

const Binding* PatternGraph::definition(ValueId value) const {
  return value < definitions_.size() ? definitions_[value] : nullptr;
}

const Binding* PatternGraph::applied(ValueId value, Op op) const {
  const Binding* found = definition(value);
  return found != nullptr && found->op == op ? found : nullptr;
}

double PatternGraph::magnitude_at_most(ValueId value) const {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (&block_ != &function_.body) return infinity;
  if (!ranges_) ranges_.emplace(function_, block_, infinity, ElementRanges::Norms::Numbers);
  const ValueRange& range = ranges_->of(value).range;
  return range.finite() ? range.magnitude() : infinity;
}

std::optional<double> PatternGraph::number(ValueId value) const {
  const Binding* found = definition(value);
  while (found != nullptr) {
    switch (found->op) {
      case Op::cast:
      case Op::reshape:
      case Op::expand_dims:
      case Op::squeeze:
      case Op::broadcast_to:
      case Op::dyn_broadcast_to:
      case Op::full:
      case Op::dyn_full: found = definition(found->operands[0]); continue;
      case Op::constant: {
        const Tensor& tensor = tensor_attribute(*found, "value");
        if (tensor.elements() != 1) return std::nullopt;
        return tensor.real_at(0);
      }
      default: return std::nullopt;
    }
  }
  return std::nullopt;
}

bool PatternGraph::is_number(ValueId value, double wanted, double tolerance) const {
  std::optional<double> found = number(value);
  return found && std::abs(*found - wanted) <= tolerance * std::max(1.0, std::abs(wanted));
}

std::optional<std::pair<double, ValueId>> PatternGraph::scaled(const Binding& binding) const {
  for (std::size_t i : {1u, 0u})
    if (std::optional<double> found = number(binding.operands[i]))
      return std::pair{*found, binding.operands[1 - i]};
  return std::nullopt;
}

}  // namespace anydim::passes
