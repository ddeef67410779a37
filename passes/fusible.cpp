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
  switch (binding.op) {
    case Op::full:
    case Op::dyn_full:
    case Op::zeros:
    case Op::dyn_zeros:
    case Op::ones:
    case Op::dyn_ones: return true;
    // A comparison where it is read; what it would take in memory is larger than its operand.
    case Op::pad:
    case Op::dyn_pad: return true;
    default: return is_view(binding.op) || is_widening(function, binding);
  }
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
  const OpInfo& row = info(binding.op);
  if (row.has(traits::moves) || row.has(traits::compares) || row.has(traits::logical)) return true;
  return binding.op == Op::where || binding.op == Op::cast || binding.op == Op::add ||
         binding.op == Op::sub || binding.op == Op::mul || binding.op == Op::neg ||
         binding.op == Op::abs || binding.op == Op::min || binding.op == Op::max ||
         binding.op == Op::dyn_arange;
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

bool is_offsets(Op op, std::size_t operand) {
  switch (op) {
    case Op::attention: return operand == 4 || operand == 5;
    case Op::segment_sum:
    case Op::segment_max:
    case Op::segment_min: return operand == 1;
    default: return false;
  }
}

bool is_host_integer(Op op, std::size_t operand) {
  switch (op) {
    case Op::loop: return operand == 0;
    case Op::list_at:
    case Op::list_erase: return operand == 1;
    case Op::list_insert: return operand == 2;
    default: return false;
  }
}

}  // namespace anydim::passes
