#include "ir/loops/derive.h"
#include "ir/loops/scalar_program.h"

namespace anydim::ir::derive {

SortForm derive_sort(AccessContext& context, const Binding& binding,
                     std::span<const ValueId> outputs) {
  const Subgraph& subgraph = *context.subgraph;
  if (outputs.size() != 1 || outputs[0] != binding.results[0]) {
    throw NoLoopForm{"an order is not known before all is sorted: " +
                     describe(*subgraph.function, binding)};
  }
  const std::vector<Dim>& dims = subgraph.tensor(binding.operands[0]).dims;
  const std::size_t axis = axis_from_front(binding, dims.size());
  const bool slices = integer_attribute(binding, "slices") != 0;
  SortForm form;
  form.descending = integer_attribute(binding, "descending") != 0;
  const std::vector<Dim>& ranks = subgraph.tensor(binding.results[0]).dims;
  form.rank = context.iterate(LoopRole::Rank, ranks[slices ? 0 : axis]);
  form.item = context.iterate(LoopRole::Key, dims[axis]);
  std::vector<Dim> index;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i == axis) {
      index.push_back(form.item.index());
      continue;
    }
    auto& space = slices ? form.depth : form.outer;
    space.push_back(context.iterate(slices ? LoopRole::Depth : LoopRole::Outer, dims[i]));
    index.push_back(space.back().index());
  }
  ProgramBuilder builder(context);
  form.key = builder.element(binding.operands[0], index);
  form.program = builder.take();
  prune(form.program, {&form.key});
  if (slices) index = {form.rank.index()};
  else index[axis] = form.rank.index();
  form.index = std::move(index);
  return form;
}

}  // namespace anydim::ir::derive
