#include "codegen_cpu/rows/window_emitter.h"

#include <functional>
#include <map>
#include <memory>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/rows/interior_range.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/scratch_layout.h"
#include "codegen_cpu/task_loop.h"
#include "codegen_cpu/vector_loop.h"

namespace anydim::codegen_cpu {

namespace {

// Whether what lies beside an image in a row of lanes can be left out by masks.
bool masks_lanes(const Target& target, const std::vector<ir::RowStage>& stages) {
  if (target.level != Level::Avx2) return target.level == Level::Avx512;
  for (const ir::ScalarStep& step : stages.front().program.steps)
    if (step.is<ir::step::Load>() && ir::size_of(step.dtype) < 4) return false;
  return true;
}

class WindowEmitter {
 public:
  WindowEmitter(KernelBuilder& kernel, const ir::RowForm& form, const SharedWindow& window,
                const RowsSchedule& schedule, bool few_rows)
      : kernel_(kernel), form_(form), window_(window),
        width_(static_cast<unsigned>(schedule.vector)), together_(schedule.together),
        few_rows_(few_rows), masks_lanes_(masks_lanes(kernel.target(), form.stages)),
        row_(form.outer[form.outer.size() - 2]), lane_(form.outer.back()) {
    const Dim lines =
        window.row_step * (row_.extent - 1) + (window.places - 1) * window.place_step + 1;
    line_ = ir::declare_iteration(ir::loop_leaf(ir::LoopRole::Made, kernel.fresh_number()), lines,
                                  kernel.symbols());
  }

  // Rows [first, last) of a task.
  void emit(Scope& task, Value* first, Value* last) {
    const std::size_t planes = form_.outer.size() - 2;
    Value *none = kernel_.constant(0), *all = emit_index(kernel_, kernel_.root(), lane_.extent);
    const auto inside =
        masks_lanes_ ? std::nullopt : ir::row_interior(form_, kernel_.symbols(), planes + 1, 0);
    const Range rows{.first = first, .last = last};
    if (!inside) return emit_columns(task, none, all, width_, form_.stages, rows);
    const Range free = interior_range(kernel_, task, *inside);
    auto& at = kernel_.at(task);
    Value* begin = at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, free.first, all);
    Value* end =
        at.CreateBinaryIntrinsic(llvm::Intrinsic::smax, begin,
                                 at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, free.last, all));
    emit_both_sides(kernel_, task, none, begin, end, all, [&](Scope& side, Value* from, Value* to) {
      emit_columns(side, from, to, 1, form_.stages, rows);
    });
    emit_columns(task, begin, end, width_, inside->stages, rows);
  }

 private:
  using Range = InteriorRange;                       // of rows or lanes
  using Reduced = std::vector<std::vector<Value*>>;  // of each row or line, each reduction
  using Variables = std::vector<std::vector<llvm::AllocaInst*>>;
  // A line that rows read, and the places of a window in it.
  struct Line {
    Line(Scope& rows, std::size_t places) : scope(rows), at_place(places) {}
    Scope scope;
    std::vector<std::unique_ptr<Scope>> at_place;
    std::vector<Value*> reduced;
  };
  // A group of rows under construction.
  struct Group {
    Scope& scope;
    Value* first_row;
    const ir::RowStage& stage;
    ProgramEmitter& program;
    std::map<std::int64_t, std::unique_ptr<Line>> lines{};
  };

  void emit_columns(Scope& scope, Value* from, Value* to, unsigned width,
                    const std::vector<ir::RowStage>& stages, const Range& rows) {
    if (!masks_lanes_) {
      const VectorRange range{
          .variable = lane_.variable, .first = from, .last = to, .width = width};
      return emit_vector_range(kernel_, scope, range,
                               [&](Scope& column, unsigned) { emit_rows(column, stages, rows); });
    }
    // One piece of code for all vectors, since it is long: the last ends with the last lane.
    const auto vectors = [&](Scope& many) {
      Value* last = kernel_.at(many).CreateSub(to, kernel_.constant(width));
      kernel_.loop(many, from, to, width, [&](Scope& column, Value* position) {
        auto& at = kernel_.at(column);
        column.define(lane_.variable,
                      at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, position, last));
        column.set_lanes({.variable = lane_.variable, .width = width});
        emit_rows(column, stages, rows);
      });
    };
    const auto part_of_one = [&](Scope& column) {
      Value* left = kernel_.at(column).CreateSub(to, from);
      column.define(lane_.variable, from);
      column.set_lanes({.variable = lane_.variable,
                        .width = width,
                        .mask = lanes_below(kernel_, column, width, left)});
      emit_rows(column, stages, rows);
    };
    const ir::Interval extent = kernel_.interval_of(lane_.extent);
    if (extent.low >= width) return vectors(scope);
    Value* enough = kernel_.at(scope).CreateICmpSGE(kernel_.at(scope).CreateSub(to, from),
                                                    kernel_.constant(width));
    if (extent.high >= width) return kernel_.branch(scope, enough, vectors, part_of_one);
    Scope column(scope);
    part_of_one(column);
  }

  // Groups of `together_` rows, the last of which ends with the last row, or row after row where
  // there are less.
  void emit_rows(Scope& column, const std::vector<ir::RowStage>& stages, const Range& rows) {
    ir::RowForm form = form_;
    form.stages = stages;
    const std::size_t planes = form_.outer.size() - 2;
    const auto inside = ir::row_interior(form, kernel_.symbols(), planes, planes);
    const std::vector<ir::RowStage> asking = over_lines(stages);
    const std::vector<ir::RowStage> free = over_lines(inside ? inside->stages : stages);
    const Range free_rows =
        inside ? interior_range(kernel_, column, *inside) : Range{kernel_.constant(0), rows.last};
    Value* count = kernel_.constant(together_);
    auto& at = kernel_.at(column);
    Value* enough = at.CreateICmpSGE(at.CreateSub(rows.last, rows.first), count);
    const auto groups = [&](Scope& many) {
      Value* last = kernel_.at(many).CreateSub(rows.last, count);
      kernel_.loop(many, rows.first, rows.last, together_, [&](Scope& group, Value* row) {
        auto& code = kernel_.at(group);
        row = code.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row, last);
        Value* is_inside =
            code.CreateAnd(code.CreateICmpSGE(row, free_rows.first),
                           code.CreateICmpSLE(code.CreateAdd(row, count), free_rows.last));
        if (!inside) return emit_group(group, row, together_, free);
        kernel_.branch(
            group, is_inside, [&](Scope& own) { emit_group(own, row, together_, free); },
            [&](Scope& own) { emit_group(own, row, together_, asking); });
      });
    };
    const auto singles = [&](Scope& few) {
      kernel_.for_range(few, rows.first, rows.last, 1,
                        [&](Scope& one, Value* row) { emit_group(one, row, 1, asking); });
    };
    if (!few_rows_) return groups(column);
    kernel_.branch(column, enough, groups, singles);
  }

  std::vector<ir::RowStage> over_lines(std::vector<ir::RowStage> stages) const {
    ir::ScalarProgram& pass = stages.front().program;
    pass = codegen_cpu::over_lines(std::move(pass), form_, window_, line_.variable);
    return stages;
  }

  void emit_group(Scope& scope, Value* first_row, std::int64_t rows,
                  const std::vector<ir::RowStage>& stages) {
    const ir::RowStage& pass = stages.front();
    ProgramEmitter program(kernel_, pass.program, scope, ir::roots_of(pass));
    Group group{.scope = scope, .first_row = first_row, .stage = pass, .program = program};
    Reduced reduced(static_cast<std::size_t>(rows));
    if (window_.looped) reduce_in_loop(group, reduced);
    else if (window_.whole) reduce_lines(group, reduced);
    else reduce_places(group, reduced);
    for (std::int64_t row = 0; row < rows; ++row) {
      Scope own(scope);
      own.define(row_.variable, number(scope, first_row, row));
      finish(own, stages, reduced[static_cast<std::size_t>(row)]);
    }
  }

  Value* number(Scope& scope, Value* first, std::int64_t further) {
    return kernel_.at(scope).CreateAdd(first, kernel_.constant(further), "", true, true);
  }

  // Each line by itself, then the lines of each row.
  void reduce_lines(Group& group, Reduced& reduced) {
    join_lines(group, reduced, [&](std::int64_t position) -> const std::vector<Value*>& {
      Line& line = line_of(group, position);
      if (line.reduced.empty())
        for (const auto& point : line.at_place) join(group, line.reduced, *point, *point);
      return line.reduced;
    });
  }

  void join_lines(Group& group, Reduced& reduced, const auto& of_line) {
    for (std::size_t row = 0; row < reduced.size(); ++row)
      for (std::int64_t place = 0; place < window_.places; ++place)
        join(group, reduced[row], of_line(window_.line(static_cast<std::int64_t>(row), place)));
  }

  // Place by place of the other inner iterations, of which few lines' values are in use at once.
  void reduce_places(Group& group, Reduced& reduced) {
    for (std::size_t other = 0; other < others(); ++other) {
      for (std::int64_t place = 0; place < window_.places; ++place) {
        for (std::size_t row = 0; row < reduced.size(); ++row) {
          Line& line = line_of(group, window_.line(static_cast<std::int64_t>(row), place));
          Scope point(*line.at_place[other]);
          point.define(form_.inner[window_.place].variable, kernel_.constant(place));
          point.define(row_.variable,
                       number(group.scope, group.first_row, static_cast<std::int64_t>(row)));
          join(group, reduced[row], point, point);
        }
      }
    }
  }

  // A loop over the points of the other inner iterations: what it reduces of each line or, where
  // there are weights, row, is kept in variables.
  void reduce_in_loop(Group& group, Reduced& reduced) {
    const auto rows = static_cast<std::int64_t>(reduced.size());
    Reduced of_lines(static_cast<std::size_t>(window_.lines(rows)));
    Reduced& sums = window_.whole ? of_lines : reduced;
    const Variables variables = variables_of(group, sums.size());
    over_others(group.scope, 0, [&](Scope& point) {
      Group once{.scope = point,
                 .first_row = group.first_row,
                 .stage = group.stage,
                 .program = group.program};
      load(point, variables, sums);
      if (window_.whole) {
        for (std::size_t position = 0; position < sums.size(); ++position) {
          Scope& line = *line_of(once, static_cast<std::int64_t>(position)).at_place[0];
          join(once, sums[position], line, line);
        }
      } else {
        reduce_places(once, sums);
      }
      for (std::size_t i = 0; i < sums.size(); ++i)
        for (std::size_t k = 0; k < sums[i].size(); ++k)
          kernel_.at(point).CreateStore(sums[i][k], variables[i][k]);
    });
    load(group.scope, variables, sums);
    if (!window_.whole) return;
    join_lines(group, reduced, [&](std::int64_t position) -> const std::vector<Value*>& {
      return of_lines[static_cast<std::size_t>(position)];
    });
  }

  // As many as there are reductions, each `count` times, with nothing reduced so far.
  Variables variables_of(Group& group, std::size_t count) {
    const unsigned width = group.scope.lanes().width;
    Variables variables(count);
    for (std::vector<llvm::AllocaInst*>& of_one : variables) {
      for (const auto& reduction : group.stage.reductions) {
        llvm::Type* type = kernel_.vector_of(kernel_.value_type(reduction.dtype), width);
        of_one.push_back(kernel_.variable(type, "partial"));
        Value* none = neutral(kernel_, reduction.kind, reduction.dtype);
        kernel_.at(group.scope).CreateStore(kernel_.splat(none, width), of_one.back());
      }
    }
    return variables;
  }

  void load(Scope& scope, const Variables& variables, Reduced& values) {
    for (std::size_t i = 0; i < variables.size(); ++i) {
      values[i].clear();
      for (llvm::AllocaInst* variable : variables[i])
        values[i].push_back(kernel_.at(scope).CreateLoad(variable->getAllocatedType(), variable));
    }
  }

  void over_others(Scope& scope, std::size_t inner, const std::function<void(Scope&)>& body) {
    if (inner == window_.place) ++inner;
    if (inner >= form_.inner.size()) return body(scope);
    const ir::Iteration& other = form_.inner[inner];
    kernel_.loop(scope, kernel_.constant(0), kernel_.constant(*other.extent.constant()), 1,
                 [&](Scope& point, Value* position) {
                   point.define(other.variable, position);
                   over_others(point, inner + 1, body);
                 });
  }

  // Points of the other inner iterations that have code of their own.
  std::size_t others() const {
    if (window_.looped) return 1;
    return static_cast<std::size_t>(*ir::points_of(form_.inner).constant() / window_.places);
  }

  Line& line_of(Group& group, std::int64_t position) {
    std::unique_ptr<Line>& line = group.lines[position];
    if (line) return *line;
    line = std::make_unique<Line>(group.scope, others());
    auto& at = kernel_.at(group.scope);
    Value* first = at.CreateMul(group.first_row, kernel_.constant(window_.row_step));
    line->scope.define(line_.variable, number(group.scope, first, position));
    for (std::size_t other = 0; other < others(); ++other) {
      auto scope = std::make_unique<Scope>(line->scope);
      if (!window_.looped) define_others(*scope, static_cast<std::int64_t>(other));
      line->at_place[other] = std::move(scope);
    }
    return *line;
  }

  void define_others(Scope& scope, std::int64_t point) {
    for (std::size_t i = form_.inner.size(); i-- > 0;) {
      if (i == window_.place) continue;
      const std::int64_t extent = *form_.inner[i].extent.constant();
      scope.define(form_.inner[i].variable, kernel_.constant(point % extent));
      point /= extent;
    }
  }

  // What the pass reduces at `point`, joined to what there is so far. A sum of products takes them
  // by multiply-adds where the processor has them.
  void join(Group& group, std::vector<Value*>& so_far, Scope& point, Scope& home) {
    std::vector<Value*> values;
    for (std::size_t i = 0; i < group.stage.reductions.size(); ++i) {
      const auto& reduction = group.stage.reductions[i];
      const ir::ScalarStep& step = group.program.program().step(reduction.step);
      if (!so_far.empty() && multiplies_and_adds(reduction, step)) {
        const unsigned width = home.lanes().width;
        Value *left = group.program.value(point, step.operands[0]),
              *right = group.program.value(point, step.operands[1]);
        auto& at = kernel_.at(home);
        values.push_back(at.CreateIntrinsic(
            llvm::Intrinsic::fma, {so_far[i]->getType()},
            {kernel_.splat(left, width), kernel_.splat(right, width), so_far[i]}));
        continue;
      }
      Value* value = group.program.value(point, reduction.step);
      const ir::ScalarStep cast{reduction.dtype, ir::step::Apply{ir::Op::cast}};
      kernel_.at(home);
      value = emit_elementwise(kernel_, home, cast, group.program.dtype(reduction.step), {value},
                               nullptr);
      value = kernel_.splat(value, home.lanes().width);
      values.push_back(so_far.empty() ? value : joined(group, i, value, so_far[i]));
    }
    so_far = std::move(values);
  }

  void join(Group& group, std::vector<Value*>& so_far, const std::vector<Value*>& values) {
    if (so_far.empty()) {
      so_far = values;
      return;
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      so_far[i] = joined(group, i, values[i], so_far[i]);
  }

  Value* joined(Group& group, std::size_t number, Value* value, Value* so_far) {
    const auto& reduction = group.stage.reductions[number];
    const ir::ScalarStep step{reduction.dtype, ir::step::Apply{ir::joining_op(reduction.kind)}};
    kernel_.at(group.scope);
    return emit_elementwise(kernel_, group.scope, step, reduction.dtype, {value, so_far}, nullptr);
  }

  bool multiplies_and_adds(const ir::RowStage::Reduction& reduction,
                           const ir::ScalarStep& step) const {
    return kernel_.target().fused_multiply_add() && reduction.kind == ir::Reduce::Sum &&
           reduction.dtype == ir::DType::F32 && step.dtype == ir::DType::F32 &&
           step.applies(ir::Op::mul);
  }

  void finish(Scope& row, const std::vector<ir::RowStage>& stages,
              const std::vector<Value*>& reduced) {
    std::map<std::int32_t, Value*> accumulated;
    for (std::size_t i = 0; i < reduced.size(); ++i)
      accumulated[stages.front().reductions[i].slot] = reduced[i];
    for (const ir::RowStage& stage : std::span(stages).subspan(1)) {
      ProgramEmitter program(kernel_, stage.program, row, ir::roots_of(stage));
      for (const auto& [slot, value] : accumulated) program.set_accumulated(slot, value, row);
      for (const ir::Store& store : stage.stores) program.store(row, store);
      for (const auto& reduction : stage.reductions)
        accumulated[reduction.slot] = program.value(row, reduction.step);
    }
  }

  KernelBuilder& kernel_;
  const ir::RowForm& form_;
  SharedWindow window_;
  unsigned width_;
  std::int64_t together_;
  bool few_rows_;  // as may_have_few_rows says
  bool masks_lanes_;
  ir::Iteration row_, lane_, line_;
};

// Whether a task may have fewer rows than are computed at once.
bool may_have_few_rows(KernelBuilder& kernel, const Dim& rows, const TaskPlan& plan,
                       std::int64_t together) {
  if (ir::divisor(rows, kernel.symbols()) % together == 0) return false;
  if (plan.pieces.is_constant(1)) return kernel.interval_of(rows).low < together;
  const auto last = ir::mod(rows - 1, plan.piece).constant();
  return !last || *last + 1 < together;
}

}  // namespace

EmittedKernel emit_windows(KernelBuilder& kernel, const ir::RowForm& form,
                           const RowsSchedule& schedule, const SharedWindow& window) {
  const std::span<const ir::Iteration> planes(form.outer.data(), form.outer.size() - 2);
  const ir::Iteration& row = form.outer[planes.size()];
  const TaskPlan plan = plan_tasks(planes, row.extent, schedule.grain, schedule.together, false);
  WindowEmitter emitter(kernel, form, window, schedule,
                        may_have_few_rows(kernel, row.extent, plan, schedule.together));
  emit_tasks(kernel, kernel.root(), planes, plan, kernel.begin(), kernel.end(),
             [&](Scope& task, Value* first, Value* last) { emitter.emit(task, first, last); });
  return {plan.tasks, ScratchLayout().bytes()};
}

}  // namespace anydim::codegen_cpu
