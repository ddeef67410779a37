#include "passes/product_operands.h"

#include <algorithm>

#include "passes/fusible.h"
#include "passes/quantised_values.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

bool ProductOperands::makes_weight_real(const FusionGraph& graph, const Binding& binding) const {
  if (function_.tensor_type(binding.results[0]).dtype != DType::F32) return false;
  if (binding.op == Op::cast) {
    const DType from = function_.tensor_type(binding.operands[0]).dtype;
    if (from == DType::I8 || from == DType::U8)
      return is_constant_behind_views(graph, binding.operands[0]);
    const std::ptrdiff_t source = graph.producer(binding.operands[0]);
    return source >= 0 &&
           is_centred_weight(graph, block_.bindings[static_cast<std::size_t>(source)]);
  }
  if (binding.op != Op::mul) return false;
  const auto is_real = [&](ValueId value) {
    const std::ptrdiff_t source = graph.producer(value);
    return source >= 0 && block_.bindings[static_cast<std::size_t>(source)].op == Op::cast &&
           makes_weight_real(graph, block_.bindings[static_cast<std::size_t>(source)]);
  };
  const ValueId a = binding.operands[0], b = binding.operands[1];
  return (is_real(a) && is_constant_behind_views(graph, b)) ||
         (is_real(b) && is_constant_behind_views(graph, a));
}

bool ProductOperands::is_centred_weight(const FusionGraph& graph, const Binding& binding) const {
  return binding.op == Op::sub && std::ranges::all_of(binding.operands, [&](ValueId side) {
           const std::ptrdiff_t source = graph.producer(side);
           if (side == binding.operands[1] && stored_[side] != Stored::No &&
               is_one_number(function_, side))
             return true;
           if (source < 0) return false;
           const Binding& widening = block_.bindings[static_cast<std::size_t>(source)];
           return is_widening(function_, widening) &&
                  size_of(function_.tensor_type(widening.operands[0]).dtype) == 1 &&
                  is_constant_behind_views(graph, widening.operands[0]);
         });
}

bool ProductOperands::is_constant_behind_views(const FusionGraph& graph, ValueId value) const {
  for (;;) {
    if (stored_[value] != Stored::No) return true;
    const std::ptrdiff_t source = graph.producer(value);
    if (source < 0 || !is_view(block_.bindings[static_cast<std::size_t>(source)].op)) return false;
    value = block_.bindings[static_cast<std::size_t>(source)].operands[0];
  }
}

std::set<ValueId> ProductOperands::operands_of(const FusionGraph& graph,
                                               const std::set<std::size_t>& members) const {
  std::set<ValueId> found;
  std::vector<ValueId> open;
  for (std::size_t member : members) {
    const Binding& binding = block_.bindings[member];
    if (!is_product(binding.op)) continue;
    std::size_t matrices = binding.op == Op::matmul ? 2 : 3;
    for (std::size_t i = 0; i < matrices; ++i) open.push_back(binding.operands[i]);
  }
  while (!open.empty()) {
    ValueId value = open.back();
    open.pop_back();
    if (!found.insert(value).second || graph.producer(value) < 0) continue;
    auto source = static_cast<std::size_t>(graph.producer(value));
    const Binding& binding = block_.bindings[source];
    if ((is_free(function_, binding) || is_narrowing(function_, binding)) &&
        !binding.operands.empty())
      open.push_back(binding.operands[0]);
  }
  return found;
}

}  // namespace anydim::passes
