#include "codegen_cuda/rows/row_stages.h"

#include <fmt/format.h>

#include <limits>

#include "codegen_cuda/scalars/vector_lanes.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cuda {

namespace {

class StageWriter {
 public:
  StageWriter(KernelWriter& kernel, CodeScope& entry, CodeScope& row, const RowStagePlan& plan,
              std::vector<std::string> values)
      : kernel_(kernel), entry_(entry), row_(row), plan_(plan), values_(std::move(values)) {
    values_.resize(static_cast<std::size_t>(plan.form.accumulators));
    std::vector<ir::Iteration> vectors(plan.form.inner.begin(), plan.form.inner.end());
    run_ = vectors.back();
    vector_ = ir::loop_leaf(ir::LoopRole::Vector, run_.variable.element);
    vectors.back() = {vector_,
                      ir::simplify(ir::floor_div(run_.extent, plan.vector), kernel.symbols())};
    space_ = linear_space(kernel, vectors);
  }

  void write() {
    for (std::size_t slot = 0; slot < plan_.form.scratch.size(); ++slot) {
      const std::string name = kernel_.fresh_numbered("kept");
      row_.line("{} {}[{}];", value_type(plan_.form.scratch[slot]), name,
                plan_.items * plan_.vector);
      kept_.push_back(name);
    }
    for (const ir::RowStage& stage : plan_.form.stages) {
      if (stage.per_row) write_per_row(stage);
      else write_pass(stage);
    }
  }

  void write_results() {
    for (const ir::RowStage& stage : plan_.form.stages) {
      if (stage.per_row) write_per_row(stage);
    }
  }

  std::vector<std::string> take() { return std::move(values_); }

 private:
  void provide(ScalarWriter& program) {
    for (std::size_t slot = 0; slot < values_.size(); ++slot) {
      if (!values_[slot].empty())
        program.set_accumulated(static_cast<std::int32_t>(slot), values_[slot], row_);
    }
  }

  void write_per_row(const ir::RowStage& stage) {
    const auto write = [&](CodeScope& scope) {
      ScalarWriter program(kernel_, stage.program, scope, ir::roots_of(stage));
      provide(program);
      for (const ir::Store& store : stage.stores) program.store(scope, store);
      for (const auto& reduction : stage.reductions)
        values_.at(static_cast<std::size_t>(reduction.slot)) = program.value(scope, reduction.step);
    };
    if (plan_.group.stores_row.empty() || !stage.reductions.empty()) write(row_);
    else kernel_.block(row_, fmt::format("if ({})", plan_.group.stores_row), write);
  }

  void write_pass(const ir::RowStage& stage) {
    row_.line(stage.reductions.empty() ? "// Results" : "// Reduction");
    std::vector<std::string> partial;
    for (const auto& reduction : stage.reductions) {
      partial.push_back(kernel_.fresh_numbered("partial"));
      row_.line("{} {} = {};", value_type(reduction.dtype), partial.back(), neutral(reduction));
    }
    // What is the same for all points may be computed outside of the loop, if there are points.
    if (!plan_.first.empty()) {
      kernel_.block(row_, fmt::format("if ({} < {})", plan_.first, plan_.last),
                    [&](CodeScope& some) { write_loop(some, some, stage, partial); });
    } else if (ir::bounds(space_.points, kernel_.symbols()).low >= 1) {
      write_loop(row_, row_, stage, partial);
    } else {
      const std::string points = kernel_.fresh("vectors");
      const bool wide = counter_is_wide(kernel_, space_.points);
      row_.line("const {} {} = {};", index_type(wide), points,
                bare(write_index(kernel_, row_, space_.points)));
      kernel_.block(row_, fmt::format("if ({} > 0)", points),
                    [&](CodeScope& some) { write_loop(some, some, stage, partial); });
    }
    for (std::size_t i = 0; i < stage.reductions.size(); ++i) {
      const auto& reduction = stage.reductions[i];
      const std::string name = kernel_.fresh_numbered("reduced");
      row_.line("const {} {} = {};", value_type(reduction.dtype), name,
                reduced(kernel_, entry_, plan_.group, reduction, partial[i]));
      values_.at(static_cast<std::size_t>(reduction.slot)) = name;
    }
  }

  // The thread's vectors of the row.
  void write_loop(CodeScope& scope, CodeScope& floor, const ir::RowStage& stage,
                  const std::vector<std::string>& partial) {
    const bool wide = counter_is_wide(kernel_, space_.points);
    const std::string vector = kernel_.fresh("vector");
    const std::string end =
        plan_.last.empty() ? write_index(kernel_, scope, space_.points) : plan_.last;
    if (plan_.items > 0) {
      const std::string item = kernel_.fresh("item");
      const bool exact = space_.points.is_constant(std::int64_t{plan_.items} * plan_.group.threads);
      const auto points = [&](CodeScope& at) {
        write_points(at, floor, stage, partial, {vector, wide}, item);
      };
      if (plan_.items == 1) {
        scope.line("const int {} = {};", vector, plan_.group.thread);
        kernel_.block(
            scope, exact ? std::string() : fmt::format("if ({} < {})", vector, end),
            [&](CodeScope& at) { write_points(at, floor, stage, partial, {vector, false}, "0"); });
        return;
      }
      kernel_.block(
          scope,
          fmt::format("#pragma unroll\nfor (int {0} = 0; {0} < {1}; ++{0})", item, plan_.items),
          [&](CodeScope& turn) {
            turn.line("const int {} = {} * {} + {};", vector, item, plan_.group.threads,
                      plan_.group.thread);
            if (exact) points(turn);
            else kernel_.block(turn, fmt::format("if ({} < {})", vector, end), points);
          });
      return;
    }
    const std::string begin = plan_.first.empty()
                                  ? plan_.group.thread
                                  : fmt::format("{} + {}", plan_.first, plan_.group.thread);
    kernel_.block(
        scope, counting_loop(wide, vector, begin, end, std::to_string(plan_.group.threads)),
        [&](CodeScope& at) { write_points(at, floor, stage, partial, {vector, wide}, ""); });
  }

  void write_points(CodeScope& at, CodeScope& floor, const ir::RowStage& stage,
                    const std::vector<std::string>& partial, const IndexVariable& vector,
                    const std::string& item) {
    define_point(kernel_, at, space_, vector);
    IndexVariable first = *at.find(vector_);
    if (plan_.vector > 1)
      first = name_index(kernel_, at, Dim::of(vector_) * plan_.vector, to_string(run_.variable));
    ScalarWriter program(kernel_, stage.program, floor, ir::roots_of(stage));
    provide(program);
    VectorLanes lanes(
        kernel_, at,
        {.variable = run_.variable, .extent = run_.extent, .width = plan_.vector, .first = first});
    for (std::size_t slot = 0; slot < kept_.size(); ++slot) {
      const std::string place = plan_.items == 1
                                    ? lanes.lane()
                                    : fmt::format("{} * {} + {}", item, plan_.vector, lanes.lane());
      program.set_scratch(static_cast<std::int32_t>(slot),
                          fmt::format("{}[{}]", kept_[slot], place), lanes.point());
      places_.resize(kept_.size());
      places_[slot] = fmt::format("{}[{}]", kept_[slot], place);
    }
    lanes.load(program);
    CodeScope& point = lanes.point();
    for (const auto& keep : stage.keeps) {
      point.line("{} = {};", places_.at(static_cast<std::size_t>(keep.slot)),
                 program.value(point, keep.step));
    }
    for (std::size_t i = 0; i < stage.reductions.size(); ++i) {
      const auto& reduction = stage.reductions[i];
      const ir::ScalarStep cast{reduction.dtype, ir::step::Apply{ir::Op::cast}};
      const std::string value = elementwise(kernel_, cast, program.dtype(reduction.step),
                                            {program.value(point, reduction.step)});
      point.line("{} = {};", partial[i], combined(kernel_, reduction, partial[i], value));
    }
    if (!stage.stores.empty()) {
      if (plan_.group.stores_point.empty()) {
        for (const ir::Store& store : stage.stores) lanes.store(program, store);
      } else {
        kernel_.block(point, fmt::format("if ({})", plan_.group.stores_point),
                      [&](CodeScope& inside) {
                        for (const ir::Store& store : stage.stores) program.store(inside, store);
                      });
      }
    }
    lanes.finish();
  }

  KernelWriter& kernel_;
  CodeScope& entry_;
  CodeScope& row_;
  const RowStagePlan& plan_;
  ir::Iteration run_;
  ir::DimLeaf vector_;  // counts vectors of run_
  LinearSpace space_;
  std::vector<std::string> values_;         // of Accumulated slots
  std::vector<std::string> kept_, places_;  // of Scratch slots: the array, the element at hand
};

}  // namespace

int row_vector_width(const ir::SymbolTable& symbols, const ir::RowForm& form, std::int64_t wanted) {
  std::int64_t width = wanted;
  while (width > 1 && ir::divisor(form.inner.back().extent, symbols) % width != 0) width /= 2;
  return static_cast<int>(width);
}

std::string neutral(const ir::RowStage::Reduction& reduction) {
  const DType dtype = reduction.dtype;
  if (reduction.kind == ir::Reduce::Sum) return literal(dtype, 0, 0);
  if (reduction.kind == ir::Reduce::Product) return literal(dtype, 1, 1);
  const bool highest = reduction.kind == ir::Reduce::Min;
  if (ir::is_float(dtype))
    return literal(dtype,
                   highest ? std::numeric_limits<double>::infinity()
                           : -std::numeric_limits<double>::infinity(),
                   0);
  if (dtype == DType::Bool) return highest ? "true" : "false";
  const std::size_t bits = ir::size_of(dtype) * 8;
  if (!ir::is_signed(dtype))
    return literal(dtype, 0,
                   highest ? static_cast<std::int64_t>(~std::uint64_t{0} >> (64 - bits)) : 0);
  const auto most = static_cast<std::int64_t>(~std::uint64_t{0} >> (65 - bits));
  return literal(dtype, 0, highest ? most : -most - 1);
}

std::string combined(KernelWriter& kernel, const ir::RowStage::Reduction& reduction,
                     const std::string& a, const std::string& b) {
  const ir::ScalarStep step{reduction.dtype, ir::step::Apply{ir::joining_op(reduction.kind)}};
  return elementwise(kernel, step, reduction.dtype, {a, b});
}

std::string reduced(KernelWriter& kernel, CodeScope& entry, const RowGroup& group,
                    const ir::RowStage::Reduction& reduction, const std::string& value) {
  kernel.use("reductions");
  const std::string type = value_type(reduction.dtype);
  const std::string combine = fmt::format("[]({0} a, {0} b) -> {0} {{ return {1}; }}", type,
                                          combined(kernel, reduction, "a", "b"));
  if (group.kind == RowGroup::Kind::Warp) return fmt::format("reduce_warp({}, {})", value, combine);
  const int warps = group.kind == RowGroup::Kind::Block ? group.threads / 32 : group.threads;
  const std::string shared = kernel.fresh_numbered("shared");
  entry.line("__shared__ {} {}[{}];", type, shared,
             group.kind == RowGroup::Kind::Block ? warps : warps * 32);
  if (group.kind == RowGroup::Kind::Block)
    return fmt::format("reduce_block<{}>({}, {}, {}, {})", warps, value, neutral(reduction), shared,
                       combine);
  return fmt::format("reduce_columns<{}>({}, {}, {})", warps, value, shared, combine);
}

std::vector<std::string> write_row_stages(KernelWriter& kernel, CodeScope& entry, CodeScope& row,
                                          const RowStagePlan& plan) {
  StageWriter writer(kernel, entry, row, plan, {});
  writer.write();
  return writer.take();
}

void write_row_results(KernelWriter& kernel, CodeScope& row, const RowStagePlan& plan,
                       std::vector<std::string> values) {
  CodeScope nowhere;
  StageWriter(kernel, nowhere, row, plan, std::move(values)).write_results();
}

}  // namespace anydim::codegen_cuda
