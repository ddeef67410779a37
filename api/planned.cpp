#include "api/planned.h"

#include "api/specialize.h"

namespace anydim {

PlannedModel plan_model(const CompileTarget& target, ir::Module module,
                        const CompileOptions& options) {
  narrow_dims(module, options.dims);
  PlannedModel planned;
  if (options.unify_dims) planned.equal_dims = take_dims_as_equal(module);
  CompileOptions narrowed = options;
  narrowed.dims.clear();
  module = module_at_fork(std::move(module), narrowed);
  const ir::Function& entry = module.functions.at(0);
  planned.inputs = inputs_of(entry);
  for (const InputInfo& input : planned.inputs)
    planned.shape.inputs.push_back({input.name, input.dtype, input.dims});
  planned.shape.symbols = entry.symbols;
  planned.program = program_for(target, std::move(module), narrowed);
  return planned;
}

}  // namespace anydim
