#include <algorithm>

#include "ir/loops/derive.h"

namespace anydim::ir::derive {

namespace {

// One part an operand of a concat that is itself an output: no guards, every part a plain loop.
void add_concat(AccessContext& context, const Binding& concat, std::int32_t output, MapForm& form) {
  const Subgraph& subgraph = *context.subgraph;
  std::size_t rank = subgraph.tensor(concat.results[0]).rank();
  std::int64_t attribute = integer_attribute(concat, "axis");
  std::size_t axis = static_cast<std::size_t>(
      attribute < 0 ? attribute + static_cast<std::int64_t>(rank) : attribute);
  Dim offset = 0;
  for (ValueId operand : concat.operands) {
    const std::vector<Dim>& dims = subgraph.tensor(operand).dims;
    MapPart part;
    std::vector<Dim> index;
    for (std::size_t i = 0; i < rank; ++i) {
      part.space.push_back(context.iterate(LoopRole::Point, dims[i]));
      index.push_back(part.space.back().index());
    }
    ProgramBuilder builder(context);
    std::int32_t step = builder.element(operand, index);
    part.program = builder.take();
    prune(part.program, {&step});
    index[axis] = index[axis] + offset;
    part.stores.push_back({output, index, step});
    form.parts.push_back(std::move(part));
    offset = offset + dims[axis];
  }
}

}  // namespace

MapForm derive_map(AccessContext& context, std::span<const ValueId> outputs) {
  const Subgraph& subgraph = *context.subgraph;
  MapForm form;
  std::vector<bool> done(outputs.size());
  for (std::size_t first = 0; first < outputs.size(); ++first) {
    if (done[first]) continue;
    const Binding* definition = subgraph.definition(outputs[first]);
    if (definition != nullptr && definition->op == Op::concat && definition->operands.size() > 1) {
      add_concat(context, *definition, static_cast<std::int32_t>(first), form);
      continue;
    }
    // Outputs of equal dims share one part.
    const std::vector<Dim>& dims = subgraph.tensor(outputs[first]).dims;
    MapPart part;
    std::vector<Dim> index;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      part.space.push_back(context.iterate(LoopRole::Point, dims[i]));
      index.push_back(part.space.back().index());
    }
    ProgramBuilder builder(context);
    for (std::size_t i = first; i < outputs.size(); ++i) {
      const Binding* other = subgraph.definition(outputs[i]);
      if (done[i] || subgraph.tensor(outputs[i]).dims != dims) continue;
      if (i != first && other != nullptr && other->op == Op::concat && other->operands.size() > 1)
        continue;
      done[i] = true;
      part.stores.push_back(
          {static_cast<std::int32_t>(i), index, builder.element(outputs[i], index)});
    }
    part.program = builder.take();
    std::vector<std::int32_t*> roots;
    for (Store& store : part.stores) roots.push_back(&store.step);
    prune(part.program, roots);
    form.parts.push_back(std::move(part));
  }
  auto buffers = buffer_dims(context), results = output_dims(context, outputs);
  for (MapPart& part : form.parts) {
    ScalarProgram* program = &part.program;
    std::vector<Store>* stores = &part.stores;
    collapse(part.space, context, {&program, 1}, {&stores, 1}, buffers, results);
  }
  return form;
}

}  // namespace anydim::ir::derive
