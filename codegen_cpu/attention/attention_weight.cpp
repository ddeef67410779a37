#include "codegen_cpu/attention/attention_weight.h"

#include <cmath>

#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/scalars/math_f32.h"
#include "codegen_cpu/scalars/scalar_emitter.h"
#include "codegen_cpu/vector_loop.h"

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

void emit_zero_weights(KernelBuilder& kernel, Scope& scope, ElementVectors& vectors,
                       const ir::AttentionForm& form, llvm::Value* keys, llvm::Value* to) {
  ProgramEmitter value(kernel, form.v, scope, {ir::last_step(form.v)});
  llvm::Value* zero = llvm::Constant::getNullValue(vectors.type());
  auto* sum = kernel.variable(vectors.type(), "zeros");
  const VectorLoop columns{.variable = form.width.variable,
                           .first = kernel.constant(0),
                           .count = emit_index(kernel, kernel.root(), form.width.extent),
                           .width = vectors.lanes()};
  for_vectors(kernel, scope, columns, [&](Scope& column, llvm::Value* e) {
    kernel.at(column).CreateStore(zero, sum);
    kernel.for_range(column, kernel.constant(0), keys, 1, [&](Scope& key, llvm::Value* j) {
      key.define(form.key.variable, j);
      llvm::Value* element = vectors.splat(value.value(key, ir::last_step(form.v)));
      auto& builder = kernel.at(key);
      llvm::Value* before = builder.CreateLoad(vectors.type(), sum);
      builder.CreateStore(builder.CreateFAdd(before, builder.CreateFMul(element, zero)), sum);
    });
    vectors.store(to, e, kernel.at(column).CreateLoad(vectors.type(), sum));
  });
}

}  // namespace anydim::codegen_cpu
