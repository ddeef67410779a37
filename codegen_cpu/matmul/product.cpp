#include "codegen_cpu/matmul/product.h"

#include "codegen_cpu/matmul/matmul_schedule.h"
#include "codegen_cpu/names.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cpu {

namespace {

bool is_byte(DType dtype) { return dtype == DType::U8 || dtype == DType::I8; }

// The dtype of the elements that the program converts to `compute` last; `compute` where it
// computes them in that.
DType narrow_dtype(const ir::ScalarProgram& program, DType compute) {
  const ScalarStep& last = program.steps.back();
  if (last.dtype != compute) return last.dtype;
  if (!last.applies(Op::cast)) return compute;
  return program.steps[static_cast<std::size_t>(last.operands.front())].dtype;
}

}  // namespace

std::int64_t Product::depths() const {
  return static_cast<std::int64_t>(ir::size_of(sum) / ir::size_of(left));
}

Product product_of(const Target& target, DType compute, const ir::ScalarProgram& left,
                   const ir::ScalarProgram& right) {
  const DType a = narrow_dtype(left, compute), b = narrow_dtype(right, compute);
  if (compute == DType::F32 && a == DType::BF16 && b == DType::BF16) return {a, b, compute};
  const auto fits_16_bits = [](DType dtype) { return is_byte(dtype) || dtype == DType::I16; };
  if (compute == DType::I32 && fits_16_bits(a) && fits_16_bits(b)) {
    if (a == DType::U8 && b == DType::I8 && target.byte_dots) return {a, b, compute};
    if (a == DType::I8 && b == DType::U8 && target.byte_dots && !target.amx) return {a, b, compute};
    return {DType::I16, DType::I16, compute};
  }
  return Product::of(compute);
}

const ScalarStep& element_of(const ir::ScalarProgram& program, DType dtype) {
  const ScalarStep& last = program.steps.back();
  if (last.dtype == dtype || !last.applies(Op::cast)) return last;
  const ScalarStep& operand = program.steps[static_cast<std::size_t>(last.operands.front())];
  return operand.dtype == dtype ? operand : last;
}

ir::ScalarProgram in_product_dtype(const ir::ScalarProgram& program, DType dtype) {
  if (program.steps.back().dtype == dtype) return program;
  const auto narrow = static_cast<std::size_t>(program.steps.back().operands.front());
  ir::ScalarProgram result = program;
  if (program.steps[narrow].dtype == dtype) result.steps.resize(narrow + 1);
  else result.steps.back().dtype = dtype;  // bytes widened to 16 bits in place of 32
  return result;
}

ir::Dim steps_of(const Product& product, const ir::Dim& depth) {
  const std::int64_t depths = product.depths();
  return depths == 1 ? depth : ir::ceil_div(depth, depths);
}

ir::Dim packed_steps(const Target& target, const Product& product, const ir::Dim& depth) {
  const ir::Dim steps = steps_of(product, depth);
  return product.in_tiles(target) ? ir::ceil_div(steps, tile_steps) * tile_steps : steps;
}

std::int64_t panel_columns(const Product& product) {
  return 64 / static_cast<std::int64_t>(ir::size_of(product.sum));
}

DType compute_dtype(DType accumulate) { return ir::is_half(accumulate) ? DType::F32 : accumulate; }

ir::ScalarProgram with_dtype(const ir::ScalarProgram& program, DType dtype) {
  ir::ScalarProgram result = program;
  if (program.steps.back().dtype == dtype) return result;
  const std::int32_t last = ir::last_step(program);
  result.steps.push_back({dtype, ir::step::Apply{Op::cast}, {last}});
  return result;
}

ir::ScalarProgram unrounded(const ir::ScalarProgram& program) {
  const auto converted = [&](const ScalarStep& step) -> const ScalarStep* {
    return step.applies(Op::cast) ? &program.steps[static_cast<std::size_t>(step.operands.front())]
                                  : nullptr;
  };
  const ScalarStep& last = program.steps.back();
  const ScalarStep* rounded = converted(last);
  const ScalarStep* exact =
      rounded != nullptr && ir::is_half(rounded->dtype) ? converted(*rounded) : nullptr;
  if (exact == nullptr || exact->dtype != last.dtype) return program;
  ir::ScalarProgram result = program;
  result.steps.resize(static_cast<std::size_t>(rounded->operands.front()) + 1);
  return result;
}

ir::MatmulForm widened(const ir::MatmulForm& form) {
  ir::MatmulForm result = form;
  result.accumulate = compute_dtype(form.accumulate);
  result.left = with_dtype(form.left, result.accumulate);
  result.right = with_dtype(form.right, result.accumulate);
  return result;
}

Product attention_product(const Target& target, const ir::AttentionForm& form) {
  const DType compute = compute_dtype(form.score.steps.back().dtype);
  const auto is_brain = [&](const ir::ScalarProgram& program) {
    return narrow_dtype(program, compute) == DType::BF16;
  };
  const bool pairs = target.avx512_bf16 && compute == DType::F32 && is_brain(form.q) &&
                     is_brain(form.k) && is_brain(form.v);
  return pairs ? Product{DType::BF16, DType::BF16, compute} : Product::of(compute);
}

}  // namespace anydim::codegen_cpu
