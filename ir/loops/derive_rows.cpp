#include <algorithm>

#include "ir/loops/derive.h"
#include "ir/loops/kernel_program.h"
#include "ir/loops/scalar_program.h"

namespace anydim::ir::derive {

namespace {

bool mentions(const Dim& dim, const std::set<DimLeaf>& variables) {
  for (const DimLeaf& leaf : dim.leaves())
    if (variables.contains(leaf)) return true;
  return false;
}

bool mentions(const std::vector<Dim>& index, const std::set<DimLeaf>& variables) {
  return std::any_of(index.begin(), index.end(),
                     [&](const Dim& dim) { return mentions(dim, variables); });
}

bool is_cheap(const ScalarStep& step) {
  return step.is<step::Apply>() ? info(step.op()).cost == Cost::simple
                                : !step.is<step::CheckedIndex>();
}

class RowPlanner {
 public:
  RowPlanner(AccessContext& context, Placements& placements, const std::set<DimLeaf>& inner,
             ValueId first_scratch, std::span<const ValueId> outputs, const SegmentRows* segment)
      : context_(context), subgraph_(*context.subgraph), placements_(placements), inner_(inner),
        outputs_(outputs), segment_(segment), first_given_(first_scratch != no_value) {
    if (first_given_) {
      scratch_.push_back({first_scratch, 0, 0});
      plan_.scratch.push_back(subgraph_.tensor(first_scratch).dtype);
    }
  }

  RowPlan plan() {
    place_everything();
    choose_scratch();
    int last = 0;
    for (ValueId output : outputs_)
      if (const Placement* placement = placements_.find(output))
        last = std::max(last, placement->level);
    for (const auto& reduced : reduced_) last = std::max(last, reduced.level);
    for (int level = 0; level <= last; ++level) add_stage(level);
    add_row_results();
    return std::move(plan_);
  }

 private:
  struct Reduced {
    ValueId operand, result;
    int level;  // stage that computes it
    std::int32_t slot;
    Reduce kind;
  };
  struct Kept {
    ValueId value;
    int level;  // stage that computes it
    std::int32_t slot;
  };

  void place_everything() {
    for (const Binding& binding : subgraph_.bindings) {
      if (is_reduction(binding.op) && place_reduction(binding)) continue;
      if (placements_.find(binding.results[0]) == nullptr && placements_.depends(binding))
        placements_.follow(binding);
    }
  }

  bool place_reduction(const Binding& binding) {
    ValueId operand = binding.operands[0];
    const Placement* placement = placements_.find(operand);
    if (placement == nullptr && !placements_.in_frame(operand)) return false;
    const std::vector<Dim>& index =
        placement != nullptr ? placement->index : placements_.frame_index();
    int level = placement != nullptr ? placement->level : 0;
    // A row is one segment, or it is the whole of its dims.
    if (is_segment_reduction(binding.op) != (segment_ != nullptr)) refuse(binding);
    if (segment_ != nullptr) {
      if (binding.operands[1] != segment_->offsets || !(index[0] == Dim::of(*inner_.begin())))
        refuse(binding);
      Placement result{index, level + 1};
      result.index[0] = Dim::of(segment_->variable);
      reduced_.push_back(
          {operand, binding.results[0], level, plan_.accumulators++, reduce_kind(binding.op)});
      placements_.place(binding.results[0], std::move(result));
      return true;
    }
    std::vector<std::size_t> axes = normalised_axes(binding, index.size());
    std::set<DimLeaf> reduced;
    for (std::size_t axis : axes) {
      if (index[axis].kind() == Dim::Kind::Symbol && inner_.contains(index[axis].leaf()))
        reduced.insert(index[axis].leaf());
      else if (prove_equal(subgraph_.tensor(operand).dims[axis], 1, context_.symbols) != Proof::Yes)
        refuse(binding);
    }
    if (reduced != inner_) refuse(binding);
    Placement result{{}, level + 1};
    bool keep = integer_attribute(binding, "keepdims") != 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      bool axis = std::binary_search(axes.begin(), axes.end(), i);
      if (axis && keep) result.index.emplace_back(0);
      if (axis) continue;
      if (mentions(index[i], inner_)) refuse(binding);
      result.index.push_back(index[i]);
    }
    reduced_.push_back(
        {operand, binding.results[0], level, plan_.accumulators++, reduce_kind(binding.op)});
    placements_.place(binding.results[0], std::move(result));
    return true;
  }

  [[noreturn]] void refuse(const Binding& binding) const {
    throw NoLoopForm{"a reduction that does not run over the kernel's rows: " +
                     describe(*subgraph_.function, binding)};
  }

  int level_of(ValueId value) const {
    const Placement* placement = placements_.find(value);
    return placement != nullptr ? placement->level : 0;
  }

  const std::vector<Dim>& index_of(ValueId value) const {
    const Placement* placement = placements_.find(value);
    return placement != nullptr ? placement->index : placements_.frame_index();
  }

  // A value computed at one level and read at a later one is kept in scratch where computing it
  // again would cost more than a load.
  void choose_scratch() {
    std::set<ValueId> crossing;
    for (const Binding& binding : subgraph_.bindings) {
      bool reduction = is_reduction(binding.op) && placements_.find(binding.results[0]) != nullptr;
      if (!reduction && !placements_.depends(binding)) continue;
      int level = reduction ? level_of(binding.operands[0]) : level_of(binding.results[0]);
      for (ValueId operand : binding.operands) {
        if (operand == no_value || subgraph_.definition(operand) == nullptr) continue;
        if (placements_.find(operand) == nullptr && !placements_.in_frame(operand)) continue;
        // Reduced at its own level and read again at a later one, or read at a later one straight
        // away.
        if (level_of(operand) < level || (reduction && read_later(operand, level)))
          crossing.insert(operand);
      }
    }
    for (const Binding& binding : subgraph_.bindings) {
      ValueId value = binding.results[0];
      if (!crossing.contains(value) || !mentions(index_of(value), inner_)) continue;
      if (std::any_of(scratch_.begin(), scratch_.end(),
                      [&](const Kept& kept) { return kept.value == value; }))
        continue;
      if (is_reduced(value) || !is_costly(value)) continue;
      scratch_.push_back({value, level_of(value), static_cast<std::int32_t>(plan_.scratch.size())});
      plan_.scratch.push_back(subgraph_.tensor(value).dtype);
    }
  }

  bool read_later(ValueId value, int level) const {
    return std::any_of(
        subgraph_.bindings.begin(), subgraph_.bindings.end(), [&](const Binding& binding) {
          return std::find(binding.operands.begin(), binding.operands.end(), value) !=
                     binding.operands.end() &&
                 placements_.depends(binding) && level_of(binding.results[0]) > level &&
                 !is_reduction(binding.op);
        });
  }

  bool is_reduced(ValueId value) const {
    return std::any_of(reduced_.begin(), reduced_.end(),
                       [&](const Reduced& reduced) { return reduced.result == value; });
  }

  bool is_costly(ValueId value) {
    AccessContext trial = context_;
    ProgramBuilder builder(trial);
    provide_up_to(builder, level_of(value), /*include_same_level=*/true);
    std::size_t before = builder.steps().size();
    builder.element(value, index_of(value));
    int loads = 0;
    std::vector<bool> varies(builder.steps().size());
    for (std::size_t i = before; i < builder.steps().size(); ++i) {
      const ScalarStep& step = builder.steps()[i];
      // What is the same for a whole row is computed once, before the loop.
      varies[i] = varies_in_row(step, inner_, varies);
      if (!varies[i]) continue;
      if (!is_cheap(step)) return true;
      if (step.is<step::Load>()) ++loads;
    }
    return loads > 1;
  }

  void provide_up_to(ProgramBuilder& builder, int level, bool include_same_level) const {
    for (const Reduced& reduced : reduced_)
      if (reduced.level < level) builder.provide(reduced.result, step::Accumulated{reduced.slot});
    for (std::size_t i = 0; i < scratch_.size(); ++i) {
      const Kept& kept = scratch_[i];
      bool foreign = i == 0 && subgraph_.definition(kept.value) != nullptr && is_first(kept.value);
      if (kept.level < level || foreign || (include_same_level && kept.level == level))
        builder.provide(kept.value, step::Scratch{kept.slot});
    }
  }

  // The caller's scratch vector is there before the first stage.
  bool is_first(ValueId value) const { return first_given_ && scratch_.front().value == value; }

  void add_stage(int level) {
    ProgramBuilder builder(context_);
    provide_up_to(builder, level, false);
    RowStage stage;
    for (const Kept& kept : scratch_)
      if (kept.level == level && !is_first(kept.value))
        stage.keeps.push_back({kept.slot, builder.element(kept.value, index_of(kept.value))});
    for (const Reduced& reduced : reduced_)
      if (reduced.level == level)
        stage.reductions.push_back({reduced.kind,
                                    builder.element(reduced.operand, index_of(reduced.operand)),
                                    subgraph_.tensor(reduced.result).dtype, reduced.slot});
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Placement* placement = placements_.find(outputs_[i]);
      if (placement == nullptr || placement->level != level || !mentions(placement->index, inner_))
        continue;
      if (first_given_ && level == 0) continue;
      stage.stores.push_back(placements_.store_of(builder, i, outputs_[i]));
    }
    if (stage.keeps.empty() && stage.reductions.empty() && stage.stores.empty()) return;
    finish(stage, builder);
  }

  void add_row_results() {
    ProgramBuilder builder(context_);
    for (const Reduced& reduced : reduced_)
      builder.provide(reduced.result, step::Accumulated{reduced.slot});
    RowStage stage;
    stage.per_row = true;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Placement* placement = placements_.find(outputs_[i]);
      if (placement == nullptr || mentions(placement->index, inner_)) continue;
      stage.stores.push_back(placements_.store_of(builder, i, outputs_[i]));
    }
    if (!stage.stores.empty()) finish(stage, builder);
  }

  void finish(RowStage& stage, ProgramBuilder& builder) {
    stage.program = builder.take();
    prune(stage);
    plan_.stages.push_back(std::move(stage));
  }

  AccessContext& context_;
  const Subgraph& subgraph_;
  Placements& placements_;
  const std::set<DimLeaf>& inner_;
  std::span<const ValueId> outputs_;
  const SegmentRows* segment_;  // null: rows are whole
  bool first_given_;            // the caller's scratch vector, slot 0
  RowPlan plan_;
  std::vector<Reduced> reduced_;
  std::vector<Kept> scratch_;
};

}  // namespace

RowPlan plan_rows(AccessContext& context, Placements& placements, const std::set<DimLeaf>& inner,
                  ValueId first_scratch, std::span<const ValueId> outputs,
                  const SegmentRows* segment) {
  return RowPlanner(context, placements, inner, first_scratch, outputs, segment).plan();
}

RowForm derive_rows(AccessContext& context, std::span<const ValueId> outputs) {
  const Subgraph& subgraph = *context.subgraph;
  auto first = std::find_if(subgraph.bindings.begin(), subgraph.bindings.end(),
                            [](const Binding& binding) { return is_reduction(binding.op); });
  const std::vector<Dim>& dims = subgraph.tensor(first->operands[0]).dims;
  const bool segmented = is_segment_reduction(first->op);
  std::vector<std::size_t> axes =
      segmented ? std::vector<std::size_t>{0} : normalised_axes(*first, dims.size());
  RowForm form;
  std::set<DimLeaf> inner;
  std::vector<Dim> frame;
  SegmentRows segment;
  if (segmented) {
    form.segments = segments_of(context, *first, first->operands[1], dims.front());
    form.outer.push_back(context.iterate(LoopRole::Segment, form.segments->count));
    segment = {first->operands[1], form.outer.front().variable};
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    bool reduced = std::binary_search(axes.begin(), axes.end(), i);
    // Its one element is at 0, in the row and in whatever has been reduced.
    if (reduced && !segmented && prove_equal(dims[i], 1, context.symbols) == Proof::Yes) {
      frame.emplace_back(0);
      continue;
    }
    auto& space = reduced ? form.inner : form.outer;
    space.push_back(context.iterate(reduced ? LoopRole::Reduced : LoopRole::Row, dims[i]));
    if (reduced) inner.insert(space.back().variable);
    frame.push_back(space.back().index());
  }
  Placements placements(subgraph, context.symbols);
  placements.frame(dims, frame);
  if (form.inner.empty()) form.inner.push_back(context.iterate(LoopRole::Reduced, 1));
  RowPlan plan =
      plan_rows(context, placements, inner, no_value, outputs, segmented ? &segment : nullptr);
  for (ValueId output : outputs)
    if (placements.find(output) == nullptr)
      throw NoLoopForm{"an output %" + subgraph.name(output) +
                       " does not depend on the kernel's rows"};
  form.stages = std::move(plan.stages);
  form.scratch = std::move(plan.scratch);
  form.accumulators = plan.accumulators;

  std::vector<ScalarProgram*> programs;
  std::vector<std::vector<Store>*> stores;
  for (RowStage& stage : form.stages) {
    programs.push_back(&stage.program);
    stores.push_back(&stage.stores);
  }
  auto buffers = buffer_dims(context), results = output_dims(context, outputs);
  std::vector<Iteration> points(form.outer.begin() + (segmented ? 1 : 0), form.outer.end());
  take_apart(points, context, programs, stores);
  collapse(points, context, programs, stores, buffers, results);
  form.outer.erase(form.outer.begin() + (segmented ? 1 : 0), form.outer.end());
  form.outer.insert(form.outer.end(), points.begin(), points.end());
  take_apart(form.inner, context, programs, stores);
  collapse(form.inner, context, programs, stores, buffers, results);
  return form;
}

}  // namespace anydim::ir::derive
