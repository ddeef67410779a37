#include <algorithm>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/matmul/left_operand.h"
#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "codegen_cpu/matmul/micro_kernel.h"
#include "codegen_cpu/matmul/pack_emitter.h"
#include "codegen_cpu/matmul/right_operand.h"
#include "codegen_cpu/matmul/tile_fetches.h"
#include "codegen_cpu/matmul/tile_kernel.h"
#include "codegen_cpu/scalars/element_vectors.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/scratch_layout.h"
#include "codegen_cpu/task_split.h"
#include "codegen_cpu/vector_loop.h"
#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

class MatmulEmitter {
 public:
  MatmulEmitter(KernelBuilder& kernel, ir::MatmulForm form, const ir::Schedule& schedule)
      : kernel_(kernel), form_(std::move(form)), schedule_(MatmulSchedule::from(schedule)),
        operands_(matmul_operands(kernel.target(), kernel.region(), form_, kernel.symbols())),
        product_(operands_.product), dtype_(form_.accumulate), element_(kernel.value_type(dtype_)),
        lanes_(kernel.target().lanes(static_cast<int>(ir::size_of(dtype_)))),
        panel_(panel_columns(product_)), gates_(form_.gates()) {
    if (!product_.rounded()) form_.left = in_product_dtype(form_.left, product_.left);
    for (const std::size_t parameter : overwritable_parameters(
             kernel.region(), std::get<ir::MatmulForm>(kernel.form().kind), kernel.form().symbols))
      kernel_.may_be_overwritten(parameter);
    left_.emplace(kernel_, form_, schedule_, operands_);
    if (!operands_.scales) form_.right = in_product_dtype(form_.right, product_.right);
    right_.emplace(kernel_, form_, schedule_, operands_);
    const std::int64_t group = std::max(schedule_.columns, panel_);
    internal_check(
        schedule_.columns % lanes_ == 0 && group % schedule_.columns == 0 && group % panel_ == 0 &&
            schedule_.block_columns % group == 0,
        "a matmul schedule's columns are whole vectors that fill panels or are filled by them");
    internal_check(
        !schedule_.tiles || (product_.in_tiles(kernel.target()) && schedule_.columns % panel_ == 0),
        "tile registers multiply narrow operands in whole panels");
    turns_results_ = form_.rows.empty() &&
                     !stores_along(kernel.region(), form_, form_.n, kernel.symbols()) &&
                     stores_along(kernel.region(), form_, form_.m, kernel.symbols());
    internal_check(form_.rows.empty() || schedule_.block_columns == 0,
                   "a matmul with row stages computes whole rows in one task");
    internal_check(gates_ == 1 || !product_.sums_blocks(),
                   "a matmul with gates multiplies no weights with scales");
  }

  EmittedKernel run() {
    Scope& root = kernel_.root();
    column_count_ = emit_index(kernel_, root, form_.n.extent);
    steps_ = emit_index(kernel_, root, steps_of(product_, form_.k.extent));
    row_units_ = emit_index(kernel_, root, left_->units());
    row_blocks_ = emit_index(kernel_, root, left_->row_blocks());
    column_blocks_ = emit_index(kernel_, root, schedule_.column_blocks(form_));
    plan_scratch(root);
    plan_multiply();
    kernel_.for_range(root, kernel_.begin(), kernel_.end(), 1,
                      [&](Scope& task, Value* number) { emit_task(task, number); });
    if (tile_registers_) tile_registers_->release(root);

    const Dim blocks = left_->row_blocks() * schedule_.column_blocks(form_);
    return {.tasks = blocks * ir::points_of(form_.batch), .scratch_bytes = scratch_.bytes()};
  }

 private:
  std::int64_t element_bytes() const { return static_cast<std::int64_t>(ir::size_of(dtype_)); }
  Dim block_rows() const { return left_->block_units() * left_->unit(); }

  void plan_scratch(Scope& root) {
    const auto reserve = [&](const Dim& bytes) { return scratch_.reserve(kernel_, bytes); };
    const std::int64_t tile_height =
        turns_results_ ? (schedule_.rows + lanes_ - 1) / lanes_ * lanes_ : schedule_.rows;
    tile_elements_ = tile_height * std::max(schedule_.columns, panel_);
    tile_ = reserve(gates_ * tile_elements_ * element_bytes());
    if (turns_results_) turned_ = reserve(gates_ * lanes_ * lanes_ * element_bytes());
    left_->plan(scratch_, right_->packed_steps());
    right_->plan(root, scratch_);
    if (schedule_.tiles) tile_registers_.emplace(kernel_, scratch_);
    for (std::size_t slot = 0; slot < form_.scratch.size(); ++slot) {
      const Dim row = right_->rounded(form_.n.extent) *
                      static_cast<std::int64_t>(ir::size_of(form_.scratch[slot]));
      row_bytes_.push_back(emit_index(kernel_, root, row));
      row_slots_.push_back(reserve(slot == 0 ? block_rows() * row : row));
    }
  }

  bool narrow_groups() const { return !whole_groups(form_.n.extent, schedule_.columns, panel_); }

  void plan_multiply() {
    std::vector<std::int64_t> widths{schedule_.columns};
    if (narrow_groups()) widths.push_back(panel_);
    fetches_.emplace(kernel_, form_);
    if (schedule_.tiles) {
      TileKernel tiles{.product = product_,
                       .tile_stride = 0,
                       .left_stride = {},
                       .panel_stride = {},
                       .steps = right_->packed_steps().constant()};
      if (tiles.steps) tiles.panel_stride = *tiles.steps * panel_;
      tiles.left_stride = left_->known_stride();
      multiply_ = emit_tile_multiply(kernel_.module(), kernel_.target(), "multiply", tiles, widths,
                                     schedule_.rows > tile_rows);
      return;
    }
    MicroKernel micro = micro_kernel_of(
        kernel_.target(), right_->unpacks() ? Product::of(dtype_) : product_, element_, lanes_);
    micro.depth = steps_of(product_, form_.k.extent).constant();
    micro.right_stride = panel_;
    if (micro.depth) micro.panel_stride = *right_->steps().constant() * panel_;
    left_->describe(micro);
    const ir::Interval extent = kernel_.interval_of(form_.m.extent);
    // With one block of rows there is no time to fetch in that the processor's own prefetching
    // would not use.
    if (right_->multiplies_bytes()) {
      micro.block = operands_.scales->block;
      micro.in_4_bits = operands_.weight->in_4_bits;
      micro.zeros = operands_.zeros.has_value();
      if (micro.zeros) micro.zero = operands_.zeros->number;
      micro.scale = operands_.scales->number;
    } else if (operands_.weight && !right_->unpacks() && schedule_.columns >= panel_ &&
               extent.high > schedule_.rows && !right_->rows_outermost()) {
      const std::int64_t lines = schedule_.columns / panel_;
      const std::int64_t blocks = left_->fewest_blocks();
      micro.fetches = right_fetches_ = (lines + blocks - 1) / blocks;
    }
    const auto stride = left_->known_stride();
    const bool rows_follow = operands_.left && stride && form_.k.extent.is_constant(*stride) &&
                             extent.high > schedule_.rows;
    fetches_->plan(
        micro, rows_follow
                   ? std::optional(*stride * static_cast<std::int64_t>(ir::size_of(product_.left)))
                   : std::nullopt);
    multiply_ = emit_multiply(kernel_.module(), kernel_.target(), "multiply", micro,
                              left_->row_counts(), widths);
  }

  void emit_task(Scope& task, Value* number) {
    auto& builder = kernel_.at(task);
    const bool columns_outer = schedule_.order == MatmulSchedule::Order::ColumnsOuter;
    Value* inner_count = columns_outer ? row_blocks_ : column_blocks_;
    Value* outer_count = columns_outer ? column_blocks_ : row_blocks_;
    Value* inner = builder.CreateURem(number, inner_count);
    Value* rest = builder.CreateUDiv(number, inner_count);
    Value* outer = builder.CreateURem(rest, outer_count);
    Value* point = builder.CreateUDiv(rest, outer_count);
    Value* row_block = columns_outer ? inner : outer;
    Value* column_block = columns_outer ? outer : inner;
    define_batch(kernel_, task, form_.batch, point);

    task_units_ = even_share(kernel_, task, row_units_, row_blocks_, row_block);
    Value* unit = emit_index(kernel_, kernel_.root(), left_->unit());
    auto& b = kernel_.at(task);
    first_row_ = b.CreateMul(task_units_.first, unit);
    task_rows_ = b.CreateMul(task_units_.count, unit);
    columns_ = {.first = kernel_.constant(0), .count = column_count_};
    if (schedule_.block_columns != 0) {
      columns_.first =
          b.CreateMul(column_block, kernel_.constant(schedule_.block_columns), "first_column");
      Value* remaining = b.CreateSub(column_count_, columns_.first);
      columns_.count = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, remaining,
                                               kernel_.constant(schedule_.block_columns));
    }

    left_->pack(task, task_units_, b.CreateAdd(b.CreateMul(point, row_blocks_), row_block));
    auto& again = kernel_.at(task);
    right_->pack(task, columns_,
                 again.CreateAdd(again.CreateMul(point, column_blocks_), column_block));
    emit_groups(task);
    if (!form_.rows.empty()) emit_rows_of(task);
  }

  // Column groups are `columns` wide while panels last, then one panel wide.
  void emit_groups(Scope& task) {
    auto& builder = kernel_.at(task);
    const std::int64_t unit = std::min(schedule_.columns, panel_);
    Value* padded = builder.CreateMul(
        builder.CreateUDiv(builder.CreateAdd(columns_.count, kernel_.constant(unit - 1)),
                           kernel_.constant(unit)),
        kernel_.constant(unit));
    Value* wide = builder.CreateUDiv(padded, kernel_.constant(schedule_.columns));
    Value* wide_columns = builder.CreateMul(wide, kernel_.constant(schedule_.columns));
    const bool narrow = narrow_groups();
    Value* groups = wide;
    if (narrow)
      groups = builder.CreateAdd(wide, builder.CreateUDiv(builder.CreateSub(padded, wide_columns),
                                                          kernel_.constant(panel_)));

    if (right_fetches_ != 0) {
      Value* blocks = left_->blocks(task, task_units_);
      // Rounded up, so that nothing is left out.
      Value* all = kernel_.constant(line_bytes * (schedule_.columns / panel_));
      Value* times = builder.CreateMul(blocks, kernel_.constant(right_fetches_));
      fetch_step_ = builder.CreateUDiv(
          builder.CreateAdd(all, builder.CreateSub(times, kernel_.constant(1))), times);
    }
    if (tile_registers_) tile_registers_->set(task, task_rows_);
    ProgramEmitter program(kernel_, form_.epilogue, task, ir::roots_of(form_));
    const auto for_groups = [&](Scope& scope, const auto& body) {
      kernel_.loop(scope, kernel_.constant(0), groups, 1, [&](Scope& group, Value* index) {
        body(group, group_at(group, index, wide, wide_columns, narrow));
      });
    };
    if (right_->rows_outermost()) {
      left_->for_blocks(task, task_units_, [&](Scope& block, const Share& rows) {
        for_groups(block,
                   [&](Scope& group, const Group& g) { emit_block(group, program, g, rows); });
      });
      return;
    }
    for_groups(task, [&](Scope& group, const Group& g) {
      if (right_->unpacks())
        right_->unpack(group, kernel_.at(group).CreateAdd(g.offset, columns_.first), g.width);
      const auto block = [&](Scope& scope, const Share& rows) {
        emit_block(scope, program, g, rows);
      };
      if (schedule_.tiles) for_tile_blocks(kernel_, group, task_rows_, schedule_.rows, block);
      else left_->for_blocks(group, task_units_, block);
    });
  }

  struct Group {
    // Offset from the task's first column; columns that exist of `width`.
    Value *offset, *width, *columns, *variant;
    std::vector<Value*> right{};  // panels of each gate
    Value* scales = nullptr;      // place of the first column's
  };

  // Group `index`, of which the first `wide` are as wide as the micro-kernel; `narrow`: there may
  // be others.
  Group group_at(Scope& group, Value* index, Value* wide, Value* wide_columns, bool narrow) {
    auto& b = kernel_.at(group);
    Group g;
    g.width = kernel_.constant(schedule_.columns);
    g.offset = b.CreateMul(index, g.width);
    g.variant = kernel_.constant(0);
    if (narrow) {
      Value* is_wide = b.CreateICmpULT(index, wide);
      Value* narrow_offset = b.CreateAdd(
          wide_columns, b.CreateMul(b.CreateSub(index, wide), kernel_.constant(panel_)));
      g.offset = b.CreateSelect(is_wide, g.offset, narrow_offset);
      g.width = b.CreateSelect(is_wide, g.width, kernel_.constant(panel_));
      g.variant = b.CreateSelect(is_wide, kernel_.constant(0), kernel_.constant(1));
    }
    g.columns = g.width;
    if (!form_.n.extent.constant() ||
        *form_.n.extent.constant() % std::min(schedule_.columns, panel_) != 0) {
      g.columns = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, g.width,
                                          b.CreateSub(columns_.count, g.offset));
    }
    for (std::int64_t gate = 0; gate < gates_; ++gate)
      g.right.push_back(right_->panels(group, columns_, g.offset, gate));
    if (right_->multiplies_bytes()) {
      Value* column = kernel_.at(group).CreateAdd(g.offset, columns_.first);
      g.scales =
          first_step_of_column(kernel_, panel_, column, kernel_.constant(operands_.scales->blocks));
    }
    return g;
  }

  void emit_block(Scope& block, ProgramEmitter& program, const Group& group, const Share& share) {
    Value *before = share.first, *rows = share.count;
    auto& builder = kernel_.at(block);
    Value* row = builder.CreateAdd(first_row_, before);
    block.define(form_.m.variable, row);
    Value *left = left_->pointer(block, share), *left_stride = left_->stride(block);
    auto& b = kernel_.at(block);
    Value* panel_stride = right_->panel_stride(block);
    Value* first = b.CreateAdd(columns_.first, group.offset);
    std::vector<Value*> of_all_gates;
    fetches_->emit(block, program,
                   {.row = row,
                    .rows = rows,
                    .column = first,
                    .in_first_group = b.CreateICmpEQ(group.offset, kernel_.constant(0)),
                    .left = left,
                    .columns = schedule_.columns},
                   of_all_gates);
    left_->add_arguments(block, share, of_all_gates);
    kernel_.at(block);
    if (group.scales != nullptr && operands_.zeros && !operands_.zeros->number)
      of_all_gates.push_back(of_blocks(*operands_.zeros, group));
    for (std::int64_t gate = 0; gate < gates_; ++gate) {
      Value* right = group.right[static_cast<std::size_t>(gate)];
      const Ahead fetch = ahead(group, right, share.number);
      std::vector<Value*> arguments{group.variant,
                                    rows,
                                    left,
                                    left_stride,
                                    right,
                                    panel_stride,
                                    kernel_.constant(panel_),
                                    schedule_.tiles ? right_->packed_step_count() : steps_,
                                    tile_of(tile_, tile_elements_, gate),
                                    fetch.place,
                                    fetch.step};
      arguments.insert(arguments.end(), of_all_gates.begin(), of_all_gates.end());
      kernel_.here().CreateCall(multiply_, arguments);
    }

    if (turns_results_) return emit_turned(block, program, group, row, rows);
    const ir::DimLeaf& column = form_.n.variable;
    const bool masks = !form_.n.extent.constant() || *form_.n.extent.constant() % lanes_ != 0;
    for_vectors(kernel_, block,
                {.variable = column,
                 .first = first,
                 .count = group.columns,
                 .width = lanes_,
                 .may_end_early = masks,
                 .aligned = true},
                [&](Scope& vectors, Value* c) {
                  Value* first_row = share.done ? share.done : kernel_.constant(0);
                  kernel_.loop(vectors, first_row, rows, 1, [&](Scope& point, Value* r) {
                    auto& inner = kernel_.at(point);
                    point.define(form_.m.variable, inner.CreateAdd(row, r));
                    set_products(point, program, tile_, tile_elements_,
                                 inner.CreateAdd(inner.CreateMul(r, group.width), c));
                    for (const ir::Store& store : form_.stores) program.store(point, store);
                    if (!form_.rows.empty())
                      keep_row(point, program, inner.CreateAdd(before, r), c, group.offset);
                  });
                });
  }

  // Of tiles of so many elements, one a gate.
  Value* tile_of(Value* tiles, std::int64_t elements, std::int64_t gate) {
    if (gate == 0) return tiles;
    return kernel_.element_pointer(tiles, dtype_, kernel_.constant(gate * elements));
  }

  llvm::FixedVectorType* vector_type() const {
    return llvm::FixedVectorType::get(element_, static_cast<unsigned>(lanes_));
  }
  llvm::Align vector_align() const {
    return llvm::Align(static_cast<std::uint64_t>(lanes_ * element_bytes()));
  }

  // The epilogue's products are the vectors at `element` of each gate's tile.
  void set_products(Scope& point, ProgramEmitter& program, Value* tiles, std::int64_t elements,
                    Value* element) {
    auto& builder = kernel_.at(point);
    for (std::int32_t gate = 0; gate < gates_; ++gate) {
      Value* place = kernel_.element_pointer(tile_of(tiles, elements, gate), dtype_, element);
      program.set_accumulated(gate, builder.CreateAlignedLoad(vector_type(), place, vector_align()),
                              point);
    }
  }

  // The epilogue along rows, where results lie next to each other: squares of the tile, turned in
  // registers.
  void emit_turned(Scope& block, ProgramEmitter& program, const Group& group, Value* row,
                   Value* rows) {
    kernel_.loop(block, kernel_.constant(0), group.columns, lanes_, [&](Scope& square, Value* c) {
      auto& outer = kernel_.at(square);
      Value* columns = outer.CreateBinaryIntrinsic(
          llvm::Intrinsic::umin, outer.CreateSub(group.columns, c), kernel_.constant(lanes_));
      Value* first = outer.CreateAdd(columns_.first, outer.CreateAdd(group.offset, c));
      for_vectors(kernel_, square,
                  {.variable = form_.m.variable, .first = row, .count = rows, .width = lanes_},
                  [&](Scope& vectors, Value* r) {
                    auto& b = kernel_.at(vectors);
                    for (std::int64_t gate = 0; gate < gates_; ++gate)
                      turn_square(b, gate, r, c, group.width);
                    kernel_.loop(vectors, kernel_.constant(0), columns, 1,
                                 [&](Scope& point, Value* i) {
                                   auto& inner = kernel_.at(point);
                                   point.define(form_.n.variable, inner.CreateAdd(first, i));
                                   set_products(point, program, turned_, lanes_ * lanes_,
                                                inner.CreateMul(i, kernel_.constant(lanes_)));
                                   for (const ir::Store& store : form_.stores)
                                     program.store(point, store);
                                 });
                  });
    });
  }

  void turn_square(llvm::IRBuilder<>& b, std::int64_t gate, Value* row, Value* column,
                   Value* width) {
    Value *tile = tile_of(tile_, tile_elements_, gate),
          *turned = tile_of(turned_, lanes_ * lanes_, gate);
    std::vector<Value*> lines;
    for (std::int64_t i = 0; i < lanes_; ++i) {
      Value* line = b.CreateMul(b.CreateAdd(row, kernel_.constant(i)), width);
      lines.push_back(b.CreateAlignedLoad(
          vector_type(), kernel_.element_pointer(tile, dtype_, b.CreateAdd(line, column)),
          vector_align()));
    }
    transpose(kernel_, lines);
    for (std::int64_t i = 0; i < lanes_; ++i)
      b.CreateAlignedStore(lines[static_cast<std::size_t>(i)],
                           kernel_.element_pointer(turned, dtype_, kernel_.constant(i * lanes_)),
                           vector_align());
  }

  // Weights come from memory: while rows pass under one group of panels, they fetch the next group,
  // each block of rows an equal part.
  struct Ahead {
    Value *place, *step;
  };
  // Of the group's first column and block.
  Value* of_blocks(const BlockScales& held, const Group& group) {
    Value* base = kernel_.buffer(static_cast<std::size_t>(held.buffer));
    return kernel_.element_pointer(base, dtype_, group.scales);
  }

  Ahead ahead(const Group& group, Value* right, Value* block) {
    if (group.scales != nullptr) {
      const BlockScales& scales = *operands_.scales;  // zero points are of the same blocks
      return {scales.number ? right : of_blocks(scales, group),
              kernel_.constant(scales.blocks * panel_)};
    }
    if (right_fetches_ == 0) return {right, kernel_.constant(0)};
    auto& builder = kernel_.here();
    const std::int64_t lines = schedule_.columns / panel_;  // of a group, a step over k
    Value* part =
        builder.CreateMul(builder.CreateMul(block, steps_),
                          builder.CreateMul(fetch_step_, kernel_.constant(right_fetches_)));
    Value* next = kernel_.element_pointer(
        right, dtype_, builder.CreateMul(right_->step_count(), kernel_.constant(lines * panel_)));
    return {builder.CreateGEP(builder.getInt8Ty(), next, part), fetch_step_};
  }

  void keep_row(Scope& point, ProgramEmitter& program, Value* row, Value* c, Value* group_offset) {
    Value* value = program.value(point, form_.epilogue_step);
    auto& builder = kernel_.at(point);
    value =
        narrow(kernel_, form_.scratch.front(), kernel_.splat(value, static_cast<unsigned>(lanes_)));
    Value* base = builder.CreateInBoundsGEP(builder.getInt8Ty(), row_slots_.front(),
                                            builder.CreateMul(row, row_bytes_.front()));
    Value* place =
        kernel_.element_pointer(base, form_.scratch.front(), builder.CreateAdd(group_offset, c));
    builder.CreateAlignedStore(value, place, llvm::Align(ir::size_of(form_.scratch.front())));
  }

  void emit_rows_of(Scope& task) {
    const std::vector<ir::Iteration> inner{form_.n};
    kernel_.loop(task, kernel_.constant(0), task_rows_, 1, [&](Scope& row, Value* r) {
      auto& builder = kernel_.at(row);
      row.define(form_.m.variable, builder.CreateAdd(first_row_, r));
      RowStages stages{.inner = inner,
                       .stages = form_.rows,
                       .scratch = form_.scratch,
                       .accumulators = form_.accumulators,
                       .scratch_bases = row_slots_,
                       .width = static_cast<unsigned>(lanes_),
                       .unroll = 2};
      stages.scratch_bases.front() = builder.CreateInBoundsGEP(
          builder.getInt8Ty(), row_slots_.front(), builder.CreateMul(r, row_bytes_.front()));
      emit_row_stages(kernel_, row, stages);
    });
  }

  KernelBuilder& kernel_;
  ir::MatmulForm form_;
  MatmulSchedule schedule_;
  MatmulOperands operands_;
  std::optional<LeftOperand> left_;
  std::optional<RightOperand> right_;
  Product product_;
  ir::DType dtype_;  // sums
  llvm::Type* element_;
  std::int64_t lanes_, panel_;
  const std::int64_t gates_;
  std::int64_t right_fetches_ = 0;  // lines that a step over k fetches of the next group's panels
  std::optional<TileFetches> fetches_;
  bool turns_results_ = false;  // results lie next to each other along rows
  ScratchLayout scratch_;
  llvm::Function* multiply_ = nullptr;
  std::optional<TileRegisters> tile_registers_;
  Value *row_units_ = nullptr, *column_count_ = nullptr, *steps_ = nullptr, *row_blocks_ = nullptr,
        *column_blocks_ = nullptr;
  Value *tile_ = nullptr, *turned_ = nullptr;
  std::int64_t tile_elements_ = 0;  // of one gate
  std::vector<Value*> row_slots_, row_bytes_;
  // What the task being emitted has.
  Share task_units_;
  RightOperand::Columns columns_{};
  Value *fetch_step_ = nullptr, *first_row_ = nullptr, *task_rows_ = nullptr;
};

}  // namespace

EmittedKernel emit_form(KernelBuilder& kernel, const ir::MatmulForm& form,
                        const ir::Schedule& schedule) {
  return MatmulEmitter(kernel, widened(form), schedule).run();
}

}  // namespace anydim::codegen_cpu
