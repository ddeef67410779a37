#include "codegen_cpu/matmul/left_operand.h"

#include <algorithm>

#include "codegen_cpu/matmul/matmul_cost.h"
#include "codegen_cpu/matmul/pack_emitter.h"
#include "codegen_cpu/matmul/round_rows.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/vector_loop.h"

namespace anydim::codegen_cpu {

LeftOperand::LeftOperand(KernelBuilder& kernel, const ir::MatmulForm& form,
                         const MatmulSchedule& schedule, const MatmulOperands& operands)
    : kernel_(kernel), form_(form), operands_(operands), schedule_(schedule) {
  const auto fresh = [&] { return ir::loop_leaf(ir::LoopRole::Made, kernel.fresh_number()); };
  // Micro-kernels of scales go through the depth block by block, not run by run.
  if (!operands.left && operands.weight && !operands.scales) {
    windows_ = windowed_rows(form.left, form.m, form.k, fresh, kernel.symbols());
    if (!schedule.tiles) read_runs(fresh);
  }
  // A micro-kernel's rows are one panel.
  panels_ = operands.left_panels && !windows_ && !taps_ &&
            schedule.rows <= panel_columns(operands.product);
}

// Micro-kernels of vectors read windows where they are packed, or leave parts of rows out.
void LeftOperand::read_runs(const std::function<ir::DimLeaf()>& fresh) {
  if (windows_ && windows_->run() % operands_.product.depths() != 0) windows_.reset();
  if (windows_) return spread_places();
  taps_ = window_taps(form_.left, form_.k, fresh, kernel_.symbols());
  if (taps_ && taps_->depth % operands_.product.depths() != 0) taps_.reset();
}

void LeftOperand::spread_places() {
  if (!windows_->planes && windows_->channels() % operands_.product.depths() == 0 &&
      share_sets(windows_->row_elements(),
                 windows_->sequence ? schedule_.rows
                                    : std::min(schedule_.rows, kernel_.interval_of(unit()).high)))
    windows_->spread = elements_of_line();
}

Dim LeftOperand::units() const {
  return windows_ ? ir::floor_div(form_.m.extent, unit()) : form_.m.extent;
}

Dim LeftOperand::blocks_of_line() const { return ir::ceil_div(unit(), schedule_.rows); }

std::set<std::int64_t> LeftOperand::row_counts() const {
  if (in_lines())
    return MatmulSchedule{.rows = schedule_.rows}.row_counts(kernel_.interval_of(unit()));
  // A task may begin and end within sequences.
  if (windows_ && !windows_->image.extent.is_constant(1))
    return MatmulSchedule{.rows = schedule_.rows}.row_counts(
        {1, kernel_.interval_of(windows_->output_lines).high});
  return schedule_.row_counts(kernel_.interval_of(form_.m.extent));
}

std::int64_t LeftOperand::fewest_blocks() const {
  if (in_lines()) return kernel_.interval_of(blocks_of_line()).low;
  return ceiling(schedule_.fewest_rows(kernel_.interval_of(form_.m.extent)), schedule_.rows);
}

Dim LeftOperand::row_stride() const {
  const ir::DType dtype = operands_.product.left;
  Dim elements = form_.k.extent;
  if (operands_.product.rounded())
    elements = elements + operands_.scales->blocks * rounded_block_head;
  const Dim lines = whole_lines(elements, dtype);
  const auto known = lines.constant();
  return known && share_sets(*known, schedule_.rows) ? lines + elements_of_line() : lines;
}

std::int64_t LeftOperand::elements_of_line() const {
  return line_bytes / static_cast<std::int64_t>(ir::size_of(operands_.product.left));
}

bool LeftOperand::share_sets(std::int64_t stride, std::int64_t rows) const {
  const auto bytes = static_cast<std::int64_t>(ir::size_of(operands_.product.left));
  return rows_without_conflict(stride * bytes) < static_cast<double>(rows);
}

std::optional<std::int64_t> LeftOperand::known_stride() const {
  if (operands_.left) return operands_.left->row_stride.constant();
  if (panels_) return operands_.product.depths();
  if (reads_lines()) return windows_->row_elements();
  return row_stride().constant();
}

void LeftOperand::describe(MicroKernel& micro) const {
  micro.left_stride = known_stride();
  if (panels_) micro.left_step = panel_columns(operands_.product);
  if (taps_) {
    micro.runs = {taps_->count};
    micro.some_runs = true;
  }
  if (!windows_) return;
  for (const WindowedRows::Counter& counter : windows_->runs()) micro.runs.push_back(counter.count);
}

void LeftOperand::add_arguments(Scope& block, const Share& rows,
                                std::vector<Value*>& arguments) const {
  if (taps_) {
    auto& builder = kernel_.at(block);
    Value* place = kernel_.element_pointer(read_taps_, ir::DType::I64, rows.number);
    Value* read = builder.CreateLoad(builder.getInt64Ty(), place);
    arguments.insert(arguments.end(), {kernel_.constant(taps_->depth), read});
  }
  if (!reads_lines()) return;
  for (const WindowedRows::Counter& counter : windows_->runs())
    arguments.push_back(emit_index(kernel_, kernel_.root(), counter.stride));
}

Dim LeftOperand::bytes_of_lines() const {
  return windows_->lines_for(block_units()) * windows_->line_elements() *
         static_cast<std::int64_t>(ir::size_of(operands_.product.left));
}

void LeftOperand::plan(ScratchLayout& scratch, const Dim& panel_steps) {
  panel_steps_ = emit_index(kernel_, kernel_.root(), panel_steps);
  if (operands_.left) return;
  const std::int64_t panel = panel_columns(operands_.product);
  Dim bytes;
  if (panels_) {
    bytes = (ir::ceil_div(block_units(), schedule_.rows) * panel * panel_steps + panel * panel) *
            bytes_of(form_.accumulate);
  } else if (reads_lines()) {
    bytes = bytes_of_lines();
  } else {
    bytes = block_units() * unit() * row_stride() * bytes_of(operands_.product.left);
  }
  memory_ = scratch.reserve(kernel_, bytes);
  lines_ = copies_rows() ? scratch.reserve(kernel_, bytes_of_lines()) : memory_;
  if (operands_.product.rounded())
    rounding_ = scratch.reserve(kernel_, operands_.scales->block * bytes_of(ir::DType::F32));
  if (taps_)
    read_taps_ = scratch.reserve(kernel_, ir::ceil_div(block_units(), schedule_.rows) *
                                              static_cast<std::int64_t>(sizeof(std::int64_t)));
  packed_.emplace(kernel_, "packed_left");
}

void LeftOperand::pack(Scope& task, const Share& units, Value* key) {
  if (packed_) packed_->unless_packed(task, key, [&](Scope& scope) { pack(scope, units); });
}

void LeftOperand::pack(Scope& scope, const Share& units) {
  const Product& product = operands_.product;
  if (windows_) {
    emit_pack_lines(kernel_, scope,
                    {.windows = *windows_,
                     .dtype = product.left,
                     .first_line = units.first,
                     .lines = units.count,
                     .to = lines_});
    if (copies_rows()) copy_rows(scope, units);
  } else if (panels_) {
    Value* depth = emit_index(kernel_, kernel_.root(), form_.k.extent);
    for_even_blocks(kernel_, scope, units.count, schedule_.rows,
                    [&](Scope& block, const Share& rows) {
                      auto& builder = kernel_.at(block);
                      emit_pack_panels(kernel_, block,
                                       {.program = form_.left,
                                        .dtype = product.left,
                                        .depths_of_step = product.depths(),
                                        .column = form_.m,
                                        .depth = form_.k,
                                        .first_column = builder.CreateAdd(units.first, rows.first),
                                        .first_depth = kernel_.constant(0),
                                        .columns = rows.count,
                                        .depths = depth,
                                        .steps = panel_steps_,
                                        .to = panel_of(block, rows.number),
                                        .whole_depth = true,
                                        .any_columns = true});
                    });
  } else if (product.rounded()) {
    emit_round_rows(kernel_, scope,
                    {.program = form_.left,
                     .row = form_.m.variable,
                     .inner = form_.k,
                     .block = operands_.scales->block,
                     .first_row = units.first,
                     .rows = units.count,
                     .memory = rounding_,
                     .to = memory_,
                     .row_stride = row_stride()});
  } else {
    emit_pack_rows(kernel_, scope,
                   {.program = form_.left,
                    .dtype = product.left,
                    .zeros_behind = product.depths() != 1,
                    .row = form_.m.variable,
                    .inner = form_.k,
                    .first_row = units.first,
                    .rows = units.count,
                    .to = memory_,
                    .row_stride = row_stride()});
    if (taps_) find_taps(scope, units);
  }
}

void LeftOperand::copy_rows(Scope& scope, const Share& units) {
  const ir::DType dtype = operands_.product.left;
  const std::int64_t run = windows_->run(), lanes = elements_of_line();
  llvm::Type* element = kernel_.storage_type(dtype);
  auto* vector = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
  const auto copy = [&](Scope& at_run, Value* from, Value* to) {
    auto& at = kernel_.at(at_run);
    for (std::int64_t first = 0; first < run; first += lanes) {
      Value *source = kernel_.element_pointer(from, dtype, kernel_.constant(first)),
            *place = kernel_.element_pointer(to, dtype, kernel_.constant(first));
      const llvm::Align byte(1);
      if (run - first >= lanes) {
        at.CreateAlignedStore(at.CreateAlignedLoad(vector, source, byte), place, byte);
        continue;
      }
      Value* mask = lanes_below(kernel_, at_run, lanes, kernel_.constant(run - first));
      Value* part =
          at.CreateMaskedLoad(vector, source, byte, mask, llvm::Constant::getNullValue(vector));
      at.CreateMaskedStore(part, place, byte, mask);
    }
  };
  const std::vector<WindowedRows::Counter> counters = windows_->runs();
  const std::function<void(Scope&, std::size_t, Value*, Value*)> copy_runs =
      [&](Scope& outer, std::size_t level, Value* from, Value* to) {
        if (level == counters.size()) return copy(outer, from, to);
        std::int64_t dense = run;
        for (std::size_t inner = level + 1; inner < counters.size(); ++inner)
          dense *= counters[inner].count;
        Value* stride = emit_index(kernel_, kernel_.root(), counters[level].stride);
        kernel_.loop(outer, kernel_.constant(0), kernel_.constant(counters[level].count), 1,
                     [&](Scope& one, Value* index) {
                       auto& at = kernel_.at(one);
                       Value *source = at.CreateMul(index, stride),
                             *place = at.CreateMul(index, kernel_.constant(dense));
                       copy_runs(one, level + 1, kernel_.element_pointer(from, dtype, source),
                                 kernel_.element_pointer(to, dtype, place));
                     });
      };
  const std::int64_t depth = form_.k.extent.constant().value();
  for_blocks(scope, units, [&](Scope& block, const Share& rows) {
    Value *line = line_, *place = place_;
    kernel_.loop(block, kernel_.constant(0), rows.count, 1, [&](Scope& row, Value* r) {
      auto& at = kernel_.at(row);
      Value* from = kernel_.element_pointer(
          line, dtype,
          at.CreateMul(at.CreateAdd(place, r), kernel_.constant(windows_->row_elements())));
      Value* to = kernel_.element_pointer(memory_, dtype,
                                          at.CreateMul(at.CreateAdd(rows.first, r), stride(row)));
      // Tiles are read as far as a row's last cache line reaches.
      if (depth % lanes != 0)
        at.CreateAlignedStore(
            llvm::Constant::getNullValue(vector),
            kernel_.element_pointer(to, dtype, kernel_.constant(depth / lanes * lanes)),
            llvm::Align(1));
      copy_runs(row, 0, from, to);
    });
  });
}

void LeftOperand::find_taps(Scope& scope, const Share& units) {
  llvm::Type* bits = kernel_.here().getInt64Ty();
  llvm::AllocaInst* found = kernel_.variable(bits, "read_taps");
  for_even_blocks(
      kernel_, scope, units.count, schedule_.rows, [&](Scope& block, const Share& rows) {
        kernel_.at(block).CreateStore(kernel_.constant(0), found);
        kernel_.loop(block, kernel_.constant(0), rows.count, 1, [&](Scope& row, Value* r) {
          auto& at_row = kernel_.at(row);
          row.define(form_.m.variable,
                     at_row.CreateAdd(at_row.CreateAdd(units.first, rows.first), r));
          kernel_.loop(row, kernel_.constant(0), kernel_.constant(taps_->count), 1,
                       [&](Scope& tap, Value* t) {
                         tap.define(taps_->tap.variable, t);
                         Value* read = emit_all_of(kernel_, tap, taps_->conditions);
                         auto& at = kernel_.at(tap);
                         Value* bit = at.CreateShl(at.CreateZExt(read, bits), t);
                         at.CreateStore(at.CreateOr(at.CreateLoad(bits, found), bit), found);
                       });
        });
        auto& after = kernel_.at(block);
        after.CreateStore(after.CreateLoad(bits, found),
                          kernel_.element_pointer(read_taps_, ir::DType::I64, rows.number));
      });
}

// A step is as large as an accumulator.
Value* LeftOperand::panel_of(Scope& scope, Value* number) {
  auto& builder = kernel_.at(scope);
  Value* panel = kernel_.constant(panel_columns(operands_.product));
  Value* steps = builder.CreateMul(number, builder.CreateMul(panel_steps_, panel));
  return kernel_.element_pointer(memory_, form_.accumulate, steps);
}

Value* LeftOperand::blocks(Scope& scope, const Share& units) {
  if (in_lines()) {
    Value* of_line = emit_index(kernel_, kernel_.root(), blocks_of_line());
    return kernel_.at(scope).CreateMul(units.count, of_line);
  }
  auto& builder = kernel_.at(scope);
  return builder.CreateUDiv(builder.CreateAdd(units.count, kernel_.constant(schedule_.rows - 1)),
                            kernel_.constant(schedule_.rows));
}

void LeftOperand::for_blocks(Scope& scope, const Share& units, const BlockBody& body) {
  if (!windows_) return for_even_blocks(kernel_, scope, units.count, schedule_.rows, body);
  Value* begin = first_packed_line(kernel_, scope, *windows_, units.first);
  const auto known = [&](const Dim& dim) { return emit_index(kernel_, kernel_.root(), dim); };
  Value *width = known(unit()), *length = known(windows_->output_lines),
        *elements = known(windows_->line_elements());
  llvm::AllocaInst* number = kernel_.variable(kernel_.here().getInt64Ty(), "blocks_before");
  kernel_.at(scope).CreateStore(kernel_.constant(0), number);
  // Rows that lie evenly from an output line on; the first has number `first_row` in the task.
  const auto for_even_rows = [&](Scope& part, Value* line, Value* first_row, Value* rows) {
    Value* packed = first_packed_line(kernel_, part, *windows_, line);
    auto& builder = kernel_.at(part);
    line_ = kernel_.element_pointer(lines_, operands_.product.left,
                                    builder.CreateMul(builder.CreateSub(packed, begin), elements));
    for_even_blocks(kernel_, part, rows, schedule_.rows, [&](Scope& block, const Share& own) {
      auto& at = kernel_.at(block);
      place_ = own.first;
      Value* before = at.CreateLoad(at.getInt64Ty(), number);
      at.CreateStore(at.CreateAdd(before, kernel_.constant(1)), number);
      body(block,
           {.first = at.CreateAdd(first_row, own.first), .count = own.count, .number = before});
    });
  };
  if (in_lines()) {
    kernel_.loop(scope, kernel_.constant(0), units.count, 1, [&](Scope& line, Value* index) {
      auto& builder = kernel_.at(line);
      Value* first_row = builder.CreateMul(index, width);
      for_even_rows(line, builder.CreateAdd(units.first, index), first_row, width);
    });
    return;
  }
  for_parts(kernel_, scope, units, length, [&](Scope& sequence, const Share& rows) {
    Value* first_row = kernel_.at(sequence).CreateSub(rows.first, units.first);
    for_even_rows(sequence, rows.first, first_row, rows.count);
  });
}

Value* LeftOperand::pointer(Scope& block, const Share& rows) {
  const ir::DType dtype = operands_.product.left;
  if (operands_.left) {
    const RowsInPlace& place = *operands_.left;
    return emit_pointer(kernel_, block, kernel_.buffer(static_cast<std::size_t>(place.buffer)),
                        dtype, place.offset + form_.m.index() * place.row_stride);
  }
  if (panels_) return panel_of(block, rows.number);
  Value* row = reads_lines() ? place_ : rows.first;
  return kernel_.element_pointer(reads_lines() ? line_ : memory_, dtype,
                                 kernel_.at(block).CreateMul(row, stride(block)));
}

Value* LeftOperand::stride(Scope& block) {
  if (const auto known = known_stride()) return kernel_.constant(*known);
  return operands_.left ? emit_index(kernel_, block, operands_.left->row_stride)
                        : emit_index(kernel_, kernel_.root(), row_stride());
}

}  // namespace anydim::codegen_cpu
