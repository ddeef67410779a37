
#include "ir/error.h"
#include "ir/loops/derive.h"
#include "ir/loops/scalar_program.h"

namespace anydim::ir::derive {

namespace {

void finish(OrderedStage& stage, ProgramBuilder& builder) {
  stage.program = builder.take();
  prune(stage);
}

OrderedForm running_sum(AccessContext& context, const Binding& binding,
                        std::span<const ValueId> outputs) {
  const Subgraph& subgraph = *context.subgraph;
  const TensorType& type = subgraph.tensor(binding.results[0]);
  const std::size_t axis = axis_from_front(binding, type.rank());
  OrderedForm form;
  OrderedStage stage;
  std::vector<Dim> index;
  for (std::size_t i = 0; i < type.rank(); ++i) {
    auto& space = i == axis ? stage.inner : form.outer;
    space.push_back(context.iterate(i == axis ? LoopRole::Key : LoopRole::Outer, type.dims[i]));
    index.push_back(space.back().index());
  }
  if (integer_attribute(binding, "reverse") != 0) index[axis] = type.dims[axis] - 1 - index[axis];

  const bool half = is_half(type.dtype);
  const DType computed = half ? DType::F32 : type.dtype;
  ProgramBuilder builder(context);
  const std::int32_t before = builder.push({computed, step::Accumulated{0}});
  std::int32_t element = builder.element(binding.operands[0], index);
  if (half) element = builder.apply(Op::cast, computed, {element});
  const std::int32_t after = builder.apply(Op::add, computed, {before, element});
  stage.carries.push_back({0, after, computed});
  std::int32_t sum = integer_attribute(binding, "exclusive") != 0 ? before : after;
  if (half) sum = builder.apply(Op::cast, type.dtype, {sum});
  builder.provide(binding.results[0], sum);

  Placements placements(subgraph, context.symbols);
  placements.frame(type.dims, index);
  placements.place(binding.results[0], {index, 0});
  for (const Binding& other : subgraph.bindings)
    if (!other.results.empty() && placements.find(other.results[0]) == nullptr &&
        placements.depends(other))
      placements.follow(other);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Placement* placement = placements.find(outputs[i]);
    if (placement == nullptr)
      throw NoLoopForm{"an output %" + subgraph.name(outputs[i]) +
                       " does not depend on the running sum"};
    stage.updates.push_back({{static_cast<std::int32_t>(i), placement->index,
                              builder.element(outputs[i], placement->index)},
                             {}});
  }
  finish(stage, builder);
  form.stages.push_back(std::move(stage));
  return form;
}

std::optional<Op> combination(const Binding& binding) {
  const std::string& reduction = string_attribute(binding, "reduction");
  if (reduction == "none") return std::nullopt;
  const std::optional<Op> op = op_named(reduction);
  internal_check(op.has_value(), "a scatter combines by an elementwise op");
  return op;
}

class Scatter {
 public:
  Scatter(AccessContext& context, const Binding& binding)
      : context_(context), subgraph_(*context.subgraph), binding_(binding),
        data_(subgraph_.tensor(binding.operands[0]).dims),
        indices_(subgraph_.tensor(binding.operands[1]).dims) {}

  OrderedForm run() {
    const bool elements = binding_.op == Op::scatter_elements;
    const std::size_t axis = elements ? axis_from_front(binding_, data_.size()) : 0;
    const std::size_t depth = elements ? 0 : static_cast<std::size_t>(*indices_.back().constant());
    // Rows that no update leaves: along every axis but the one that indices address.
    OrderedStage copy;
    std::vector<Dim> place;
    for (std::size_t i = 0; i < data_.size(); ++i) {
      const bool addressed = elements ? i == axis : i < depth;
      auto& space = addressed ? copy.inner : form_.outer;
      space.push_back(context_.iterate(addressed ? LoopRole::Reduced : LoopRole::Outer, data_[i]));
      place.push_back(space.back().index());
    }
    ProgramBuilder builder(context_);
    copy.updates.push_back({{0, place, builder.element(binding_.operands[0], place)}, {}});
    finish(copy, builder);
    form_.stages.push_back(std::move(copy));
    form_.stages.push_back(elements ? update_elements(std::move(place), axis)
                                    : update_slices(std::move(place), depth));
    return std::move(form_);
  }

 private:
  OrderedStage update_elements(std::vector<Dim> place, std::size_t axis) {
    OrderedStage stage;
    stage.inner.push_back(context_.iterate(LoopRole::Update, indices_[axis]));
    for (std::size_t i = 0; i < data_.size(); ++i) {
      if (i == axis || prove_equal(indices_[i], data_[i], context_.symbols) == Proof::Yes) continue;
      stage.conditions.push_back({Comparison::Less, place[i], indices_[i]});
    }
    std::vector<Dim> at = place;
    at[axis] = stage.inner.back().index();
    ProgramBuilder builder(context_);
    place[axis] = builder.checked_index(binding_.operands[1], at, data_[axis], binding_);
    return written(std::move(stage), builder, std::move(place), at);
  }

  OrderedStage update_slices(std::vector<Dim> place, std::size_t depth) {
    OrderedStage stage;
    std::vector<Dim> at;
    for (std::size_t i = 0; i + 1 < indices_.size(); ++i) {
      stage.inner.push_back(context_.iterate(LoopRole::Update, indices_[i]));
      at.push_back(stage.inner.back().index());
    }
    ProgramBuilder builder(context_);
    for (std::size_t i = 0; i < depth; ++i) {
      std::vector<Dim> element = at;
      element.emplace_back(static_cast<std::int64_t>(i));
      place[i] = builder.checked_index(binding_.operands[1], element, data_[i], binding_);
    }
    at.insert(at.end(), place.begin() + static_cast<std::ptrdiff_t>(depth), place.end());
    return written(std::move(stage), builder, std::move(place), at);
  }

  OrderedStage written(OrderedStage stage, ProgramBuilder& builder, std::vector<Dim> place,
                       const std::vector<Dim>& at) {
    // The steps that check indices must stay, and under the numbers that the place names them by:
    // nothing is pruned here.
    const std::int32_t value = builder.element(binding_.operands[2], at);
    stage.updates.push_back({{0, std::move(place), value}, combination(binding_)});
    stage.program = builder.take();
    return stage;
  }

  AccessContext& context_;
  const Subgraph& subgraph_;
  const Binding& binding_;
  const std::vector<Dim>& data_;
  const std::vector<Dim>& indices_;
  OrderedForm form_;
};

}  // namespace

bool is_ordered(Op op) {
  return op == Op::cumulative_sum || op == Op::scatter_elements || op == Op::scatter_nd;
}

OrderedForm derive_ordered(AccessContext& context, const Binding& binding,
                           std::span<const ValueId> outputs) {
  if (binding.op == Op::cumulative_sum) return running_sum(context, binding, outputs);
  if (outputs.size() != 1 || outputs[0] != binding.results[0]) {
    throw NoLoopForm{"a scatter's elements change until its last update: " +
                     describe(*context.subgraph->function, binding)};
  }
  return Scatter(context, binding).run();
}

}  // namespace anydim::ir::derive
