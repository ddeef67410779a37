#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

bool is_cast(const Function& function, const Binding& binding, bool from_half, bool to_half) {
  if (binding.op != Op::cast) return false;
  const DType from = function.tensor_type(binding.operands[0]).dtype,
              to = function.tensor_type(binding.results[0]).dtype;
  return (from_half ? is_half(from) : from == DType::F32) &&
         (to_half ? is_half(to) : to == DType::F32);
}

}  // namespace

bool is_view(Op op) { return info(op).has(traits::views) || info(op).has(traits::reshapes); }

bool is_widening(const Function& function, const Binding& binding) {
  if (is_cast(function, binding, true, false)) return true;
  if (binding.op != Op::cast) return false;
  const DType from = function.tensor_type(binding.operands[0]).dtype,
              to = function.tensor_type(binding.results[0]).dtype;
  return is_integer(from) && size_of(from) < size_of(DType::I32) &&
         (to == DType::I32 || to == DType::F32);
}
bool is_narrowing(const Function& function, const Binding& binding) {
  return is_cast(function, binding, false, true);
}

}  // namespace anydim::passes
