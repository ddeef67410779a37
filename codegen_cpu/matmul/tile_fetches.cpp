#include "codegen_cpu/matmul/tile_fetches.h"

#include <algorithm>

#include "codegen_cpu/scalars/index_emitter.h"
#include "ir/dims/affine.h"
#include "ir/loops/kernel_program.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cpu {

TileFetches::TileFetches(KernelBuilder& kernel, const ir::MatmulForm& form)
    : kernel_(kernel), form_(form) {
  const std::vector<ir::ScalarStep>& steps = form_.epilogue.steps;
  const std::vector<bool> late = ir::computed_from_accumulated(form_.epilogue);
  const auto guards = ir::guards_of(form_.epilogue, {});
  // Whether a checked index is there before the tile is multiplied.
  const auto known_early = [&](std::int32_t index) {
    const auto at = static_cast<std::size_t>(index);
    return !late[at] && guards[at].empty() && !ir::varies(steps, index, form_.m.variable) &&
           !ir::varies(steps, index, form_.n.variable);
  };
  const auto add = [&](Value* base, const ir::TensorType& type, const std::vector<ir::Dim>& index,
                       bool written) {
    for (const ir::Dim& dim : index)
      if (!std::ranges::all_of(ir::steps_mentioned(dim), known_early)) return;
    const ir::Dim offset = ir::linear_offset(index, type.dims, kernel_.symbols());
    const auto along = ir::affine_in(offset, form_.n.variable);
    if (!along || !along->stride.is_constant(1) || !offset.mentions(form_.m.variable)) return;
    beside_.push_back({base, type.dtype, offset, written});
  };
  for (const ir::Store& store : form_.stores) {
    const auto output = static_cast<std::size_t>(store.output);
    add(kernel_.output(output), kernel_.output_type(output), store.index, true);
  }
  for (const ir::ScalarStep& step : steps) {
    const auto* load = std::get_if<ir::step::Load>(&step.kind);
    if (!load) continue;
    const auto buffer = static_cast<std::size_t>(load->buffer);
    add(kernel_.buffer(buffer), kernel_.buffer_type(buffer), load->index, false);
  }
}

void TileFetches::plan(MicroKernel& micro, std::optional<std::int64_t> left_row) {
  if (micro.block != 0 || !micro.runs.empty() || !micro.depth) return;
  left_row_ = left_row;
  micro.fetches_behind = left_row.has_value();
  for (const Beside& beside : beside_) {
    const auto across = ir::affine_in(beside.offset, form_.m.variable);
    const auto rows = across ? across->stride.constant() : std::nullopt;
    if (!rows) return micro.beside.clear();
    const auto bytes = static_cast<std::int64_t>(ir::size_of(beside.dtype));
    micro.beside.push_back(
        {.stride = *rows * bytes, .element_bytes = bytes, .written = beside.written});
  }
  in_micro_kernel_ = true;
}

void TileFetches::emit(Scope& block, ProgramEmitter& epilogue, const Tile& tile,
                       std::vector<Value*>& arguments) {
  auto& builder = kernel_.at(block);
  // The rows that the next block reads, while the first group's columns are computed: later groups
  // find them in the second-level cache.
  if (left_row_) {
    Value* bytes = builder.CreateMul(tile.rows, kernel_.constant(*left_row_));
    Value* lines = builder.CreateUDiv(bytes, kernel_.constant(line_bytes));
    arguments.push_back(builder.CreateGEP(builder.getInt8Ty(), tile.left, bytes));
    arguments.push_back(builder.CreateSelect(tile.in_first_group, lines, kernel_.constant(0)));
  }
  if (!in_micro_kernel_) return burst(block, epilogue, tile);
  for (const Beside& beside : beside_)
    arguments.push_back(place(block, epilogue, beside, tile.row, tile.column));
}

Value* TileFetches::place(Scope& block, ProgramEmitter& epilogue, const Beside& beside, Value* row,
                          Value* column) {
  const ir::Dim offset = epilogue.index(block, beside.offset);
  Scope point(block);
  point.define(form_.m.variable, row);
  point.define(form_.n.variable, column);
  return emit_pointer(kernel_, point, beside.base, beside.dtype, offset);
}

void TileFetches::burst(Scope& block, ProgramEmitter& epilogue, const Tile& tile) {
  for (const Beside& beside : beside_) {
    const std::int64_t bytes = tile.columns * static_cast<std::int64_t>(ir::size_of(beside.dtype));
    kernel_.loop(block, kernel_.constant(0), tile.rows, 1, [&](Scope& point, Value* r) {
      Value* row = kernel_.at(point).CreateAdd(tile.row, r);
      Value* first = place(point, epilogue, beside, row, tile.column);
      kernel_.at(point);
      kernel_.fetch(first, bytes, 3, beside.written);
    });
  }
}

}  // namespace anydim::codegen_cpu
