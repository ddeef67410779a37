#include "ir/loops/derive.h"
#include "ir/loops/scalar_program.h"

namespace anydim::ir::derive {

CompactForm derive_compact(AccessContext& context, const Binding& binding,
                           std::span<const ValueId> outputs) {
  const Subgraph& subgraph = *context.subgraph;
  CompactForm form;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == binding.results[0]) form.positions = static_cast<std::int32_t>(i);
    else if (outputs[i] == binding.results[1]) form.count = static_cast<std::int32_t>(i);
    else
      throw NoLoopForm{"what reads a compaction waits for all of it: " +
                       describe(*subgraph.function, binding)};
  }
  std::vector<Dim> index;
  for (const Dim& dim : subgraph.tensor(binding.operands[0]).dims) {
    form.space.push_back(context.iterate(LoopRole::Outer, dim));
    index.push_back(form.space.back().index());
  }
  ProgramBuilder builder(context);
  form.selected = builder.element(binding.operands[0], index);
  form.program = builder.take();
  prune(form.program, {&form.selected});
  ScalarProgram* program = &form.program;
  collapse(form.space, context, {&program, 1}, {}, buffer_dims(context),
           output_dims(context, outputs));
  return form;
}

}  // namespace anydim::ir::derive
