#include "passes/fusible.h"

#include <algorithm>
#include <functional>

#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

bool is_literal(const Binding& binding) {
  return info(binding.op).has(traits::literal) || binding.op == Op::shape_of;
}

bool is_free(const Function& function, const Binding& binding) {
  return info(binding.op).has(traits::costless) || is_view(binding.op) ||
         is_widening(function, binding);
}

bool is_anchor(Op op) { return info(op).has(traits::anchors) || info(op).has(traits::reduces); }

bool is_product(Op op) { return op == Op::matmul || op == Op::attention; }

bool is_pointwise(const Binding& binding) {
  const OpInfo& row = info(binding.op);
  return row.has(traits::elementwise) || row.has(traits::moves) || is_literal(binding) ||
         binding.op == Op::dyn_arange;
}

bool stays_outside(const Binding& binding) {
  return info(binding.op).has(traits::control) || binding.op == Op::bind ||
         binding.op == Op::check || binding.op == Op::assertion || binding.op == Op::check_shape ||
         (binding.op == Op::constant && tensor_attribute(binding, "value").elements() != 1);
}

bool is_cheap_arithmetic(const Binding& binding) {
  return info(binding.op).has(traits::cheap | traits::moves | traits::compares | traits::logical);
}

bool mixes_elements(const Binding& binding) {
  return (binding.op == Op::resize || binding.op == Op::dyn_resize) &&
         string_attribute(binding, "mode") != "nearest";
}

bool repeats_elements(const Binding& binding) {
  if (binding.op == Op::dyn_windows) return true;
  if (binding.op != Op::windows) return false;
  const std::vector<std::int64_t> sizes = integers_attribute(binding, "sizes"),
                                  strides = integers_or_ones(binding, "strides", sizes.size());
  return !std::ranges::equal(sizes, strides, std::less_equal());
}

bool borders_with_elements(const Binding& binding) {
  return binding.op == Op::pad && string_attribute(binding, "mode") != "constant";
}

}  // namespace anydim::passes
