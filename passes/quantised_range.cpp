#include "passes/quantised_range.h"

#include <algorithm>
#include <set>

#include "ir/expand.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

// A number, or one for each channel of a weight.
bool is_scale(const TensorType& type) {
  return std::ranges::all_of(type.dims, [](const Dim& dim) { return dim.is_constant(1); }) ||
         (type.rank() == 1 && type.dims[0].is_constant());
}

bool reads_within(const Block& block, const std::set<ValueId>& values) {
  const auto reads = [&](ValueId value) { return values.contains(value); };
  return std::ranges::any_of(block.results, reads) ||
         std::ranges::any_of(block.bindings, [&](const Binding& binding) {
           return std::ranges::any_of(binding.operands, reads) ||
                  std::ranges::any_of(binding.blocks, [&](const Block& nested) {
                    return reads_within(nested, values);
                  });
         });
}

}  // namespace

bool is_quantised_range(const Function& function, const Block& block, const Binding& extreme) {
  if (extreme.op != Op::reduce_max && extreme.op != Op::reduce_min) return false;
  const ValueId tensor = extreme.operands[0];
  if (normalised_axes(extreme, function.tensor_type(tensor).rank()).size() !=
      function.tensor_type(tensor).rank())
    return false;
  std::set<ValueId> decided{extreme.results[0]};  // numbers that it decides
  // the tensor over its scale, and what is made of that before it is real again
  std::set<ValueId> integers;
  const auto holds = [](const std::set<ValueId>& values, ValueId value) {
    return value != no_value && values.contains(value);
  };
  bool rounds = false;
  for (const Binding& binding : block.bindings) {
    for (const Block& nested : binding.blocks)
      if (reads_within(nested, decided)) return false;
    const bool of_integers = std::ranges::any_of(
        binding.operands, [&](ValueId operand) { return holds(integers, operand); });
    rounds = rounds || (of_integers && binding.op == Op::round);
    if (std::ranges::none_of(binding.operands,
                             [&](ValueId operand) { return holds(decided, operand); })) {
      if (of_integers && (info(binding.op).has(traits::elementwise) || binding.op == Op::matmul ||
                          is_view(binding.op)))
        integers.insert(binding.results.begin(), binding.results.end());
      continue;
    }
    if (!info(binding.op).has(traits::elementwise)) return false;
    const ValueId result = binding.results[0];
    if (binding.op == Op::div && binding.operands[0] == tensor) integers.insert(result);
    else if (of_integers && (binding.op == Op::add || binding.op == Op::sub))
      integers.insert(result);
    else if (of_integers && binding.op == Op::mul) continue;
    else if (is_scale(function.tensor_type(result))) decided.insert(result);
    else return false;
  }
  return rounds && std::ranges::none_of(block.results,
                                        [&](ValueId result) { return holds(decided, result); });
}

}  // namespace anydim::passes
