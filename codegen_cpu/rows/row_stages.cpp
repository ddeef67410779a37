#include <algorithm>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/scalars/element_vectors.h"
#include "codegen_cpu/segments.h"
#include "codegen_cpu/task_loop.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cpu {

namespace {

constexpr std::int64_t most_unrolled = 8;
constexpr std::int64_t most_chains = 4;  // of their additions

// Points of the innermost iteration that are emitted one after the other, where lanes are rows: of
// a small window, so that what depends on a place in it alone is found outside of the loops around
// it. 1: a loop.
std::int64_t unrolled_places(const std::vector<ir::Iteration>& inner, bool segments) {
  if (segments) return 1;
  const std::int64_t places = inner.back().extent.constant().value_or(1);
  return places <= most_unrolled ? std::max<std::int64_t>(places, 1) : 1;
}

// One running reduction: a vector for each copy of the unrolled body, so that their latencies
// overlap, and a scalar for what is left over on targets without masks. They are combined in a
// fixed order at the end of the row.
class Accumulator {
 public:
  Accumulator(KernelBuilder& kernel, Scope& row, const ir::RowStage::Reduction& reduction,
              DType from, unsigned width, unsigned copies)
      : kernel_(kernel), reduction_(reduction), from_(from), width_(width) {
    neutral_ = neutral(kernel, reduction.kind, reduction.dtype);
    llvm::Type* type = kernel.value_type(reduction.dtype);
    for (unsigned copy = 0; copy < copies; ++copy)
      vectors_.push_back(kernel.variable(kernel.vector_of(type, width), "partial"));
    if (width > 1) single_ = kernel.variable(type, "partial");
    auto& at = kernel.at(row);
    for (llvm::AllocaInst* vector : vectors_) at.CreateStore(kernel.splat(neutral_, width), vector);
    if (single_) at.CreateStore(neutral_, single_);
  }

  // `value` at a point whose lanes all belong to one row.
  void add(Scope& point, llvm::Value* value, unsigned copy) {
    kernel_.at(point);
    const ir::ScalarStep cast{reduction_.dtype, ir::step::Apply{ir::Op::cast}};
    value = emit_elementwise(kernel_, point, cast, from_, {value}, nullptr);
    const unsigned width = point.lanes().width;
    auto& at = kernel_.at(point);
    value = kernel_.splat(value, width);
    if (point.lanes().mask)
      value = at.CreateSelect(point.lanes().mask, value, kernel_.splat(neutral_, width));
    llvm::AllocaInst* partial = width == width_ ? vectors_[copy] : single_;
    llvm::Value* old = at.CreateLoad(partial->getAllocatedType(), partial);
    kernel_.at(point).CreateStore(combine(point, value, old), partial);
  }

  // All partial results as one; a scalar, or a vector where the lanes are rows.
  llvm::Value* result(Scope& row, bool lanes_are_rows) {
    std::vector<llvm::Value*> parts;
    for (llvm::AllocaInst* vector : vectors_) parts.push_back(load(row, vector));
    while (parts.size() > 1) {
      for (std::size_t i = 0; i < parts.size() / 2; ++i)
        parts[i] = combine(row, parts[2 * i], parts[2 * i + 1]);
      if (parts.size() % 2 == 1) parts[parts.size() / 2] = parts.back();
      parts.resize((parts.size() + 1) / 2);
    }
    llvm::Value* value = parts[0];
    if (lanes_are_rows) return value;
    kernel_.at(row);
    if (width_ > 1)
      value = reduce_lanes(kernel_, value,
                           [&](llvm::Value* a, llvm::Value* b) { return combine(row, a, b); });
    return single_ ? combine(row, value, load(row, single_)) : value;
  }

 private:
  llvm::Value* load(Scope& scope, llvm::AllocaInst* variable) {
    return kernel_.at(scope).CreateLoad(variable->getAllocatedType(), variable);
  }
  llvm::Value* combine(Scope& scope, llvm::Value* a, llvm::Value* b) {
    const ir::ScalarStep step{reduction_.dtype, ir::step::Apply{ir::joining_op(reduction_.kind)}};
    return emit_elementwise(kernel_, scope, step, reduction_.dtype, {a, b}, nullptr);
  }

  KernelBuilder& kernel_;
  ir::RowStage::Reduction reduction_;
  DType from_;
  unsigned width_;
  llvm::Constant* neutral_ = nullptr;
  std::vector<llvm::AllocaInst*> vectors_;
  llvm::AllocaInst* single_ = nullptr;
};

class StageEmitter {
 public:
  StageEmitter(KernelBuilder& kernel, Scope& row, const RowStages& stages)
      : kernel_(kernel), row_(row), stages_(stages) {
    lanes_are_rows_ = row.lanes().width > 1;
    for (const ir::Iteration& iteration : stages.inner) {
      inner_index_ = inner_index_ * iteration.extent + iteration.index();
      inner_count_ = inner_count_ * iteration.extent;
    }
    scratch_index_ = inner_index_;
    if (lanes_are_rows_) {
      // A scratch vector holds the lanes of one inner point side by side; the base is moved back so
      // that the row's variable counts them.
      const Lanes& lanes = row.lanes();
      scratch_index_ =
          inner_index_ * static_cast<std::int64_t>(lanes.width) + Dim::of(lanes.variable);
    }
    for (std::size_t slot = 0; slot < stages.scratch.size(); ++slot) {
      llvm::Value* base = stages.scratch_bases[slot];
      if (lanes_are_rows_) {
        auto& at = kernel.at(row);
        base = kernel.element_pointer(base, stages.scratch[slot],
                                      at.CreateNeg(row.find(row.lanes().variable)));
      }
      bases_.push_back(base);
    }
    values_.resize(static_cast<std::size_t>(stages.accumulators));
  }

  void begin() {
    if (stages_.segments == nullptr) return;
    llvm::Value* rows = emit_index(kernel_, kernel_.root(), stages_.inner.front().extent);
    segment_ =
        segment_range(kernel_, row_, *stages_.segments, row_.find(stages_.segment_variable), rows);
  }
  void emit(const ir::RowStage& stage) {
    if (stage.per_row) emit_per_row(stage);
    else emit_pass(stage);
  }

 private:
  void prepare(ProgramEmitter& program) {
    for (std::size_t slot = 0; slot < values_.size(); ++slot) {
      if (values_[slot])
        program.set_accumulated(static_cast<std::int32_t>(slot), values_[slot], row_);
    }
    for (std::size_t slot = 0; slot < bases_.size(); ++slot) {
      program.set_scratch(static_cast<std::int32_t>(slot), bases_[slot], stages_.scratch[slot],
                          scratch_index_);
    }
  }

  void emit_per_row(const ir::RowStage& stage) {
    ProgramEmitter program(kernel_, stage.program, row_, ir::roots_of(stage));
    prepare(program);
    for (const ir::Store& store : stage.stores) program.store(row_, store);
    for (const auto& reduction : stage.reductions)
      values_.at(static_cast<std::size_t>(reduction.slot)) = program.value(row_, reduction.step);
  }

  void emit_pass(const ir::RowStage& stage) {
    const unsigned width = lanes_are_rows_ ? row_.lanes().width : stages_.width;
    const bool segments = stages_.segments != nullptr;
    const unsigned copies = lanes_are_rows_
                                ? static_cast<unsigned>(chains_across(stages_.inner, segments))
                                : stages_.unroll;
    std::vector<Accumulator> accumulators;
    for (const auto& reduction : stage.reductions) {
      const DType from = stage.program.steps.at(static_cast<std::size_t>(reduction.step)).dtype;
      accumulators.emplace_back(kernel_, row_, reduction, from, width, copies);
    }
    const auto pass = [&](Scope& scope) {
      ProgramEmitter program(kernel_, stage.program, scope, ir::roots_of(stage));
      prepare(program);
      emit_loops(scope, 0, [&](Scope& point, unsigned copy) {
        for (std::size_t i = 0; i < accumulators.size(); ++i)
          accumulators[i].add(point, program.value(point, stage.reductions[i].step), copy);
        for (const auto& keep : stage.keeps) {
          const auto slot = static_cast<std::size_t>(keep.slot);
          store_elements(kernel_, point, bases_.at(slot), stages_.scratch.at(slot), scratch_index_,
                         program.value(point, keep.step));
        }
        for (const ir::Store& store : stage.stores) program.store(point, store);
      });
    };
    if (stages_.segments != nullptr) {
      llvm::Value* some = kernel_.at(row_).CreateICmpSLT(segment_.first, segment_.last);
      kernel_.guarded(row_, some, pass);
    } else if (ir::bounds(inner_count_, kernel_.symbols()).low >= 1) {
      Scope scope(row_);
      pass(scope);
    } else {
      llvm::Value* count = emit_index(kernel_, row_, inner_count_);
      llvm::Value* some = kernel_.at(row_).CreateICmpSGT(count, kernel_.constant(0));
      kernel_.guarded(row_, some, pass);
    }
    for (std::size_t i = 0; i < accumulators.size(); ++i) {
      values_.at(static_cast<std::size_t>(stage.reductions[i].slot)) =
          accumulators[i].result(row_, lanes_are_rows_);
    }
  }

  void emit_loops(Scope& scope, std::size_t depth,
                  const std::function<void(Scope&, unsigned)>& body) {
    if (depth == stages_.inner.size()) {
      body(scope, 0);
      return;
    }
    const ir::Iteration& iteration = stages_.inner[depth];
    const SegmentRange run =
        stages_.segments != nullptr
            ? segment_
            : SegmentRange{kernel_.constant(0), emit_index(kernel_, scope, iteration.extent)};
    if (depth + 1 == stages_.inner.size() && !lanes_are_rows_) {
      const std::int64_t turn = std::int64_t{stages_.width} * stages_.unroll;
      VectorRange range{.variable = iteration.variable,
                        .first = run.first,
                        .last = run.last,
                        .width = stages_.width,
                        .unroll = stages_.unroll,
                        .flat = true};
      range.whole = stages_.segments == nullptr &&
                    ir::divisor(iteration.extent, kernel_.symbols()) % turn == 0;
      emit_vector_range(kernel_, scope, range, body);
      return;
    }
    const std::int64_t places =
        lanes_are_rows_ ? unrolled_places(stages_.inner, stages_.segments != nullptr) : 1;
    if (depth + 1 == stages_.inner.size() && places > 1) {
      for (std::int64_t place = 0; place < places; ++place) {
        Scope point(scope);
        point.define(iteration.variable, kernel_.constant(place));
        body(point, static_cast<unsigned>(place % most_chains));
      }
      return;
    }
    // Only entered where no inner extent is 0.
    kernel_.loop(scope, run.first, run.last, 1, [&](Scope& inner, llvm::Value* index) {
      inner.define(iteration.variable, index);
      emit_loops(inner, depth + 1, body);
    });
  }

  KernelBuilder& kernel_;
  Scope& row_;
  const RowStages& stages_;
  bool lanes_are_rows_ = false;
  SegmentRange segment_;
  Dim inner_index_, scratch_index_;
  Dim inner_count_ = Dim(1);
  std::vector<llvm::Value*> bases_;
  std::vector<llvm::Value*> values_;  // of Accumulated slots
};

}  // namespace

llvm::Constant* neutral(KernelBuilder& kernel, ir::Reduce reduce, DType dtype) {
  llvm::Type* type = kernel.value_type(dtype);
  const bool highest = reduce == ir::Reduce::Min;
  if (ir::is_float(dtype)) {
    if (reduce == ir::Reduce::Sum) return llvm::ConstantFP::get(type, 0.0);
    if (reduce == ir::Reduce::Product) return llvm::ConstantFP::get(type, 1.0);
    return llvm::ConstantFP::getInfinity(type, !highest);
  }
  if (reduce == ir::Reduce::Sum) return llvm::ConstantInt::get(type, 0);
  if (reduce == ir::Reduce::Product) return llvm::ConstantInt::get(type, 1);
  const unsigned bits = type->getIntegerBitWidth();
  const bool with_sign = dtype != DType::Bool && ir::is_signed(dtype);
  if (with_sign)
    return llvm::ConstantInt::get(type, highest ? llvm::APInt::getSignedMaxValue(bits)
                                                : llvm::APInt::getSignedMinValue(bits));
  return llvm::ConstantInt::get(
      type, highest ? llvm::APInt::getMaxValue(bits) : llvm::APInt::getMinValue(bits));
}

std::int64_t chains_across(const std::vector<ir::Iteration>& inner, bool segments) {
  return std::min(unrolled_places(inner, segments), most_chains);
}

void emit_row_stages(KernelBuilder& kernel, Scope& row, const RowStages& stages) {
  Scope* const rows[]{&row};
  emit_row_stages(kernel, rows, {&stages, 1});
}

void emit_row_stages(KernelBuilder& kernel, std::span<Scope* const> rows,
                     std::span<const RowStages> stages) {
  std::vector<StageEmitter> emitters;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    emitters.emplace_back(kernel, *rows[i], stages[i]);
    emitters.back().begin();
  }
  for (const ir::RowStage& stage : stages.front().stages)
    for (StageEmitter& emitter : emitters) emitter.emit(stage);
}

}  // namespace anydim::codegen_cpu
