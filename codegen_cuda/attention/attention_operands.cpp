#include "codegen_cuda/attention/attention_operands.h"

#include "codegen_cuda/names.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cuda {

namespace {

constexpr std::int64_t piece_bytes = 16;
constexpr std::int64_t widest_head = 128;

struct Operand {
  DType dtype;
  DirectOperand rows;
};

std::optional<Operand> operand(const ir::Region& region, const ir::ScalarProgram& written,
                               const ir::Iteration& row, const ir::Iteration& column,
                               const ir::SymbolTable& symbols) {
  const ir::ScalarProgram program = ir::without_widening(written);
  const ScalarStep& load = program.steps.back();
  if (!load.is<ir::step::Load>() || (load.dtype != DType::F16 && load.dtype != DType::BF16))
    return std::nullopt;
  const auto rows =
      direct_operand(load_offset(region, load, symbols), load.as<ir::step::Load>().buffer,
                     piece_bytes / 2, row, column, symbols);
  if (!rows) return std::nullopt;
  return Operand{load.dtype, *rows};
}

// The epilogue is the output itself, or a conversion of it.
void find_output(AttentionOperands& operands, const ir::Region& region,
                 const ir::AttentionForm& form, const ir::SymbolTable& symbols) {
  if (form.stores.size() != 1) return;
  const ir::Store& store = form.stores.front();
  const ScalarStep* step = &form.epilogue.steps[static_cast<std::size_t>(store.step)];
  const DType dtype = step->dtype;
  if (step->applies(ir::Op::cast))
    step = &form.epilogue.steps[static_cast<std::size_t>(step->operands.front())];
  if (!step->is<ir::step::Accumulated>()) return;
  const bool narrow = ir::is_half(dtype);
  if (!narrow && dtype != DType::F32) return;
  const ir::Block& body = region.body.body;
  const auto output = static_cast<std::size_t>(store.output);
  const Dim offset =
      ir::linear_offset(store.index, region.body.tensor_type(body.results[output]).dims, symbols);
  const auto rows =
      direct_operand(offset, static_cast<std::int32_t>(body.parameters.size() + output),
                     narrow ? piece_bytes / 2 : 2, form.row, form.width, symbols);
  if (!rows) return;
  operands.output_form = narrow ? OutputForm::Narrow : OutputForm::Wide;
  operands.output = *rows;
  operands.output_dtype = dtype;
}

}  // namespace

std::optional<AttentionOperands> attention_operands(const ir::Region& region,
                                                    const ir::AttentionForm& form,
                                                    const ir::SymbolTable& symbols) {
  const auto depth = form.depth.extent.constant(), width = form.width.extent.constant();
  if (!depth || !width || *depth <= 0 || *width <= 0 || *depth > widest_head ||
      *width > widest_head || *depth % 16 != 0 || *width % 16 != 0)
    return std::nullopt;
  const DType scores = form.score.steps.back().dtype;
  if (scores != DType::F32 && scores != DType::F16 && scores != DType::BF16) return std::nullopt;
  const auto query = operand(region, form.q, form.row, form.depth, symbols),
             key = operand(region, form.k, form.key, form.depth, symbols),
             value = operand(region, form.v, form.key, form.width, symbols);
  if (!query || !key || !value || query->dtype != key->dtype || key->dtype != value->dtype)
    return std::nullopt;
  AttentionOperands operands{.dtype = query->dtype,
                             .depth = *depth,
                             .width = *width,
                             .query = query->rows,
                             .key = key->rows,
                             .value = value->rows,
                             .output = {}};
  find_output(operands, region, form, symbols);
  return operands;
}

}  // namespace anydim::codegen_cuda
