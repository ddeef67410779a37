#include <algorithm>
#include <optional>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/loops/loop_schedules.h"
#include "codegen_cpu/loops/map_tile.h"
#include "codegen_cpu/loops/row_tables.h"
#include "codegen_cpu/loops/shared_steps.h"
#include "codegen_cpu/scalars/element_vectors.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/task_loop.h"
#include "ir/loops/straight_run.h"

namespace anydim::codegen_cpu {

namespace {

using Vectors = std::vector<llvm::Value*>;

// One part of a map; tasks [begin, end) are its own.
class PartEmitter {
 public:
  PartEmitter(KernelBuilder& kernel, const ir::MapPart& part, const MapSchedule& schedule,
              ScratchLayout& scratch)
      : kernel_(kernel), part_(part), scratch_(scratch), outer_(part.space),
        run_{ir::loop_leaf(ir::LoopRole::Made), Dim(1)},
        width_(static_cast<unsigned>(schedule.vector)),
        unroll_(static_cast<unsigned>(schedule.unroll)) {
    if (!outer_.empty()) {
      run_ = outer_.back();
      outer_.pop_back();
    }
    std::int64_t grain = schedule.grain;
    if (schedule.tile) tile_ = tile_of(part, kernel.form());
    if (tile_) {
      along_ = outer_[tile_->axis];
      outer_[tile_->axis] = {ir::loop_leaf(ir::LoopRole::Made, kernel.fresh_number()),
                             ir::ceil_div(along_.extent, width_)};
      grain = std::max<std::int64_t>(grain / width_, 1);
      unroll_ = 1;
    }
    const std::int64_t turn = std::int64_t{width_} * unroll_;
    plan_ = plan_tasks(outer_, run_.extent, grain, turn, false);
    whole_ = ir::divisor(run_.extent, kernel.symbols()) % turn == 0;
  }

  const Dim& tasks() const { return plan_.tasks; }

  void emit(Scope& tasks, llvm::Value* begin, llvm::Value* end) {
    const std::vector<std::int32_t> roots = ir::roots_of(part_);
    ProgramEmitter program(kernel_, part_.program, tasks, roots);
    if (tile_) {
      emit_tasks(kernel_, tasks, outer_, plan_, begin, end,
                 [&](Scope& block, llvm::Value* first, llvm::Value* last) {
                   emit_block(block, program, first, last);
                 });
      return;
    }
    const bool one_row = plan_.rows_per_task.is_constant(1);
    RowTables tables(
        kernel_, scratch_, program,
        one_row ? std::vector<std::int32_t>() : shared_steps(part_, kernel_.symbols()).kept,
        ir::min(plan_.length, plan_.piece), width_);
    const auto straight = width_ > 1 ? ir::straight_run(part_, kernel_.symbols()) : std::nullopt;
    std::optional<ProgramEmitter> along;
    if (straight) along.emplace(kernel_, straight->program, tasks, roots);
    const auto points = [&](Scope& row, const VectorRange& covered, ProgramEmitter& computed) {
      emit_vector_range(kernel_, row, covered, [&](Scope& point, unsigned) {
        tables.give(point, computed);
        store(point, computed);
      });
    };
    emit_tasks(
        kernel_, tasks, outer_, plan_, begin, end,
        [&](Scope& row, llvm::Value* first, llvm::Value* last) {
          if (!straight) return points(row, range(first, last, unroll_, whole_), program);
          llvm::Value* from = within(row, straight->begin, first, last);
          llvm::Value* to = within(row, straight->end, from, last);
          // Borders are mostly shorter than a vector.
          emit_both_sides(kernel_, row, first, from, to, last,
                          [&](Scope& side, llvm::Value* begin_of, llvm::Value* end_of) {
                            VectorRange border = range(begin_of, end_of, 1, false);
                            if (has_narrow_borders(*straight)) border.width = 1;
                            points(side, border, program);
                          });
          points(row, range(from, to, 1, false), *along);
        },
        [&](Scope& task, llvm::Value* first, llvm::Value* last) {
          tables.fill(task, program, range(first, last, 1, whole_));
        });
  }

 private:
  VectorRange range(llvm::Value* first, llvm::Value* last, unsigned vectors, bool whole) const {
    return {.variable = run_.variable,
            .first = first,
            .last = last,
            .width = width_,
            .unroll = vectors,
            .whole = whole};
  }

  // The place, no less than `first` and no more than `last`.
  llvm::Value* within(Scope& row, const Dim& place, llvm::Value* first, llvm::Value* last) {
    llvm::Value* value = emit_index(kernel_, row, place);
    auto& at = kernel_.at(row);
    value = at.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, first);
    return at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, last);
  }

  bool has_narrow_borders(const ir::StraightRun& straight) const {
    const auto before = straight.begin.constant();
    const auto after = ir::simplify(run_.extent - straight.end, kernel_.symbols()).constant();
    return before && after && std::max(*before, *after) < width_ / 2;
  }

  void store(Scope& point, ProgramEmitter& program) const {
    for (const ir::Store& store : part_.stores) program.store(point, store);
  }

  // Lines of one block, as many as vectors have lanes or what is left of the iteration: whole tiles
  // of whole blocks, then line by line what is left over.
  void emit_block(Scope& block, ProgramEmitter& program, llvm::Value* first, llvm::Value* last) {
    auto& at = kernel_.at(block);
    llvm::Value* width = kernel_.constant(width_);
    llvm::Value* line = at.CreateMul(block.find(outer_[tile_->axis].variable), width);
    llvm::Value* lines = emit_index(kernel_, kernel_.root(), along_.extent);
    kernel_.at(block);
    llvm::Value* end =
        at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, at.CreateAdd(line, width), lines);
    llvm::Value* length = at.CreateSub(last, first);
    llvm::Value* vectors = at.CreateSub(length, at.CreateURem(length, width));
    llvm::Value* is_whole = at.CreateICmpEQ(at.CreateSub(end, line), width);
    llvm::Value* covered =
        at.CreateAdd(first, at.CreateSelect(is_whole, vectors, kernel_.constant(0)));
    kernel_.for_range(block, first, covered, width_, [&](Scope& tile, llvm::Value* position) {
      emit_tile(tile, program, line, position);
    });
    llvm::Value* some = kernel_.at(block).CreateICmpSLT(covered, last);
    kernel_.guarded(block, some, [&](Scope& rest) {
      kernel_.for_range(rest, line, end, 1, [&](Scope& one, llvm::Value* number) {
        one.define(along_.variable, number);
        emit_vector_range(kernel_, one, range(covered, last, 1, false),
                          [&](Scope& point, unsigned) { store(point, program); });
      });
    });
  }

  void emit_tile(Scope& tile, ProgramEmitter& program, llvm::Value* line, llvm::Value* position) {
    const auto moved = [&](llvm::Value* value, unsigned by) {
      return kernel_.at(tile).CreateAdd(value, kernel_.constant(by), "", true, true);
    };
    std::vector<Vectors> read(tile_->loads.size());
    for (unsigned k = 0; k < width_; ++k) {
      Scope across(tile);
      across.define(along_.variable, line);
      across.define(run_.variable, moved(position, k));
      across.set_lanes({.variable = along_.variable, .width = width_});
      for (std::size_t i = 0; i < read.size(); ++i) {
        llvm::Value* value = program.value(across, tile_->loads[i]);
        kernel_.at(across);
        read[i].push_back(kernel_.splat(value, width_));
      }
    }
    kernel_.at(tile);
    for (Vectors& vectors : read) transpose(kernel_, vectors);
    for (unsigned k = 0; k < width_; ++k) {
      Scope point(tile);
      point.define(along_.variable, moved(line, k));
      point.define(run_.variable, position);
      point.set_lanes({.variable = run_.variable, .width = width_});
      for (std::size_t i = 0; i < read.size(); ++i)
        point.values.insert_or_assign(program.program().value_of(tile_->loads[i]), read[i][k]);
      store(point, program);
    }
  }

  KernelBuilder& kernel_;
  const ir::MapPart& part_;
  ScratchLayout& scratch_;
  std::vector<ir::Iteration> outer_;  // of blocks of lines where there is a tile
  ir::Iteration run_, along_;
  unsigned width_, unroll_;
  std::optional<MapTile> tile_;
  TaskPlan plan_;
  bool whole_ = false;
};

}  // namespace

EmittedKernel emit_form(KernelBuilder& kernel, const ir::MapForm& form,
                        const ir::Schedule& chosen) {
  const MapSchedule schedule = MapSchedule::from(chosen);
  EmittedKernel emitted;
  ScratchLayout scratch;
  for (const ir::MapPart& part : form.parts) {
    PartEmitter emitter(kernel, part, schedule, scratch);
    Scope& root = kernel.root();
    llvm::Value* before = emit_index(kernel, root, emitted.tasks);
    llvm::Value* count = emit_index(kernel, root, emitter.tasks());
    auto& at = kernel.at(root);
    llvm::Value* begin = at.CreateBinaryIntrinsic(
        llvm::Intrinsic::smax, at.CreateSub(kernel.begin(), before), kernel.constant(0));
    llvm::Value* end =
        at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, at.CreateSub(kernel.end(), before), count);
    llvm::Value* some = at.CreateICmpSLT(begin, end);
    kernel.guarded(root, some, [&](Scope& tasks) { emitter.emit(tasks, begin, end); });
    emitted.tasks = emitted.tasks + emitter.tasks();
  }
  emitted.scratch_bytes = scratch.bytes();
  return emitted;
}

}  // namespace anydim::codegen_cpu
