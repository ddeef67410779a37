#include "codegen_cpu/attention/attention_weight.h"

#include <cmath>

#include "codegen_cpu/scalars/math_f32.h"

namespace anydim::codegen_cpu {

std::optional<double> factor_of(const ir::ScalarProgram& score) {
  const auto step = [&](std::int32_t position) -> const ir::ScalarStep& {
    return score.steps[static_cast<std::size_t>(position)];
  };
  const ir::ScalarStep& last = score.steps.back();
  if (last.is<ir::step::Accumulated>()) return 1;
  if (!last.applies(ir::Op::mul)) return std::nullopt;
  for (const std::size_t side : {0U, 1U}) {
    const ir::ScalarStep &product = step(last.operands[side]),
                         &factor = step(last.operands[1 - side]);
    const auto* number = std::get_if<ir::step::Constant>(&factor.kind);
    if (product.is<ir::step::Accumulated>() && number && number->real > 0 &&
        std::isfinite(number->real))
      return number->real;
  }
  return std::nullopt;
}

llvm::Value* without_missing(KernelBuilder& kernel, ElementVectors& vectors, llvm::Value* scores,
                             llvm::Value* mask) {
  llvm::Value* none = vectors.splat(llvm::ConstantFP::getInfinity(vectors.element(), true));
  return kernel.here().CreateSelect(mask, scores, none);
}

llvm::Value* emit_weight(KernelBuilder& kernel, Scope& scope, ir::DType dtype,
                         llvm::Value* difference, const std::optional<double>& factor) {
  if (dtype == ir::DType::F32) return exp_nonpositive_f32(kernel, difference, factor.value_or(1));
  if (factor)
    difference =
        kernel.here().CreateFMul(difference, llvm::ConstantFP::get(difference->getType(), *factor));
  const ir::ScalarStep step{dtype, ir::step::Apply{ir::Op::exp}};
  return emit_elementwise(kernel, scope, step, dtype, {difference}, nullptr);
}

}  // namespace anydim::codegen_cpu
