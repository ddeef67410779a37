#include "ir/derive.h"

namespace anydim::ir::derive {

SortForm derive_sort(AccessContext& context, const Binding& binding, std::span<const ValueId> outputs) {
  const Stretch& stretch = *context.stretch;
  if (outputs.size() != 1 || outputs[0] != binding.results[0]) {
    throw NoLoopForm{"an order is not known before all is sorted: " + describe(*stretch.function, binding)};
  }
  const std::vector<Dim>& dims = stretch.tensor(binding.operands[0]).dims;
  const std::size_t axis = axis_from_front(binding, dims.size());
  const bool slices = integer_attribute(binding, "slices") != 0;
  SortForm form;
  form.descending = integer_attribute(binding, "descending") != 0;
  form.rank = context.iterate("$r", dims[axis]).symbol;
  form.item = context.iterate("$j", dims[axis]);
  std::vector<Dim> index;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i == axis) {
      index.push_back(Dim::symbol(form.item.symbol));
      continue;
    }
    auto& space = slices ? form.depth : form.outer;
    space.push_back(context.iterate((slices ? "$d" : "$o") + std::to_string(space.size()), dims[i]));
    index.push_back(Dim::symbol(space.back().symbol));
  }
  ProgramBuilder builder(context);
  form.key = builder.element(binding.operands[0], index);
  form.program = builder.take();
  prune(form.program, {&form.key});
  if (slices) index.clear();
  if (slices) index.push_back(Dim::symbol(form.rank));
  else index[axis] = Dim::symbol(form.rank);
  form.index = std::move(index);
  return form;
}

}  // namespace anydim::ir::derive
