#include "codegen_cuda/matmul/matmul_operands.h"

#include <algorithm>
#include <utility>

#include "codegen_cuda/names.h"
#include "ir/dims/affine.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cuda {

namespace {

constexpr std::int64_t piece_bytes = 16;
constexpr std::int64_t piece = 8;  // 16-bit elements in 16 bytes

TensorOperand tensor_operand(const ir::Region& region, ir::ScalarProgram program,
                             const ir::Iteration& row, const ir::Iteration& depth,
                             const ir::SymbolTable& symbols) {
  TensorOperand operand{.program = std::move(program), .major = Major::Depth, .direct = {}};
  operand.major = operand_major(region, operand.program, row, depth, symbols);
  const ScalarStep& load = operand.program.steps.back();
  if (load.is<ir::step::Load>()) {
    const bool rows_lie_apart = operand.major == Major::Depth;
    operand.direct =
        direct_operand(load_offset(region, load, symbols), load.as<ir::step::Load>().buffer,
                       piece_bytes / static_cast<std::int64_t>(ir::size_of(load.dtype)),
                       rows_lie_apart ? row : depth, rows_lie_apart ? depth : row, symbols);
  }
  return operand;
}

}  // namespace

std::optional<DirectOperand> direct_operand(const Dim& offset, std::int32_t buffer,
                                            std::int64_t piece, const ir::Iteration& other,
                                            const ir::Iteration& contiguous,
                                            const ir::SymbolTable& symbols) {
  const auto along = ir::affine_in(offset, contiguous.variable);
  if (!along || !along->stride.is_constant(1)) return std::nullopt;
  const auto between = ir::affine_in(along->base, other.variable);
  if (!between || depends_on_values(between->base) || depends_on_values(between->stride))
    return std::nullopt;
  if (ir::divisor(between->base, symbols) % piece != 0 ||
      ir::divisor(between->stride, symbols) % piece != 0)
    return std::nullopt;
  return DirectOperand{.buffer = buffer, .offset = between->base, .stride = between->stride};
}

std::optional<TmaOperand> tma_operand(const TensorOperand& operand, const ir::MatmulForm& form,
                                      const ir::Iteration& row) {
  constexpr std::size_t most_dims = 4, element_bytes = 2;
  const auto depth = form.k.extent.constant();
  if (!operand.direct || !depth || *depth < 1) return std::nullopt;
  const auto stride = operand.direct->stride.constant();
  if (!stride) return std::nullopt;
  // a map of an empty tensor can't be made, and is not used
  const Dim rows = ir::max(row.extent, 1);
  TmaOperand result{.buffer = operand.direct->buffer,
                    .major = operand.major,
                    .dims = {form.k.extent, rows},
                    .strides = {Dim(static_cast<std::int64_t>(element_bytes) * *stride)},
                    .batch = {}};
  if (operand.major == Major::Rows) std::swap(result.dims[0], result.dims[1]);
  Dim rest = operand.direct->offset;
  for (const ir::Iteration& iteration : form.batch) {
    if (!rest.mentions(iteration.variable)) continue;
    const auto along = ir::affine_in(rest, iteration.variable);
    if (!along || !along->stride.is_constant() || *along->stride.constant() % piece != 0 ||
        *along->stride.constant() <= 0)
      return std::nullopt;
    result.dims.push_back(ir::max(iteration.extent, 1));
    result.strides.push_back(along->stride * static_cast<std::int64_t>(element_bytes));
    result.batch.push_back(iteration.variable);
    rest = along->base;
  }
  if (!rest.is_constant(0) || *stride <= 0 || result.dims.size() > most_dims) return std::nullopt;
  return result;
}

// Most loads of an operand's program run along one direction: tiles take that one, so that threads
// beside each other read elements beside each other.
Major operand_major(const ir::Region& region, const ir::ScalarProgram& program,
                    const ir::Iteration& row, const ir::Iteration& depth,
                    const ir::SymbolTable& symbols) {
  for (const ScalarStep& step : program.steps) {
    if (!step.is<ir::step::Load>()) continue;
    const Dim offset = load_offset(region, step, symbols);
    const auto along_depth = ir::affine_in(offset, depth.variable),
               along_rows = ir::affine_in(offset, row.variable);
    if (along_depth && along_depth->stride.is_constant(1)) return Major::Depth;
    if (along_rows && along_rows->stride.is_constant(1)) return Major::Rows;
  }
  return Major::Depth;
}

Dim load_offset(const ir::Region& region, const ScalarStep& load, const ir::SymbolTable& symbols) {
  const auto& [buffer, index] = load.as<ir::step::Load>();
  const ir::ValueId parameter = region.body.body.parameters.at(static_cast<std::size_t>(buffer));
  return ir::linear_offset(index, region.body.tensor_type(parameter).dims, symbols);
}

bool depends_on_values(const Dim& dim) {
  const auto leaves = dim.leaves();
  return std::any_of(leaves.begin(), leaves.end(),
                     [](const ir::DimLeaf& leaf) { return leaf.is_element() || leaf.is_step(); });
}

std::optional<TensorOperands> tf32_operands(const ir::Region& region, const ir::MatmulForm& form,
                                            const ir::SymbolTable& symbols) {
  if (form.accumulate != DType::F32) return std::nullopt;
  for (const ir::ScalarProgram* program : {&form.left, &form.right})
    if (program->steps.back().dtype != DType::F32) return std::nullopt;
  if (tensor_operands(region, form, symbols))
    return std::nullopt;  // nothing would be lost, and twice the rate
  return TensorOperands{.dtype = DType::F32,
                        .left = tensor_operand(region, form.left, form.m, form.k, symbols),
                        .right = tensor_operand(region, form.right, form.n, form.k, symbols)};
}

bool is_load_by_row(const ir::MatmulForm& form, const ir::ScalarStep& step) {
  return step.is<ir::step::Load>() &&
         ir::any_dim(step, [&](const ir::Dim& dim) { return dim.mentions(form.m.variable); });
}

std::optional<TensorOperands> tensor_operands(const ir::Region& region, const ir::MatmulForm& form,
                                              const ir::SymbolTable& symbols) {
  if (form.accumulate != DType::F32 && !ir::is_half(form.accumulate)) return std::nullopt;
  TensorOperands operands{
      .dtype = {},
      .left = tensor_operand(region, ir::without_widening(form.left), form.m, form.k, symbols),
      .right = tensor_operand(region, ir::without_widening(form.right), form.n, form.k, symbols)};
  operands.dtype = operands.left.program.steps.back().dtype;
  if (!ir::is_half(operands.dtype) || operands.right.program.steps.back().dtype != operands.dtype)
    return std::nullopt;
  return operands;
}

}  // namespace anydim::codegen_cuda
