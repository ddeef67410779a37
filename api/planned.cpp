#include "api/planned.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/inputs.h"
#include "api/specialize.h"
#include "codegen_cuda/backend.h"
#include "ir/error.h"

namespace anydim {

CompileTarget planned_gpu(std::string_view part) {
  const auto found = codegen_cuda::target_named(part);
  if (!found)
    throw Error(ErrorKind::CommandLine,
                fmt::format("there is no GPU '{}' to predict for; there are {}", part,
                            fmt::join(codegen_cuda::target_names(), ", ")));
  CompileTarget target;
  codegen_cuda::CudaOptions options;
  options.target = *found;
  target.backend = codegen_cuda::make_cuda_backend(options);
  target.device_name = found->name;
  return target;
}

PlannedModel plan_model(const CompileTarget& target, ir::Module module,
                        const CompileOptions& options) {
  narrow_dims(module, options.dims);
  CompileOptions narrowed = options;
  narrowed.dims.clear();
  module = module_at_fork(std::move(module), narrowed);
  PlannedModel planned;
  const ir::Function& entry = module.functions.at(0);
  planned.inputs = inputs_of(entry);
  for (const InputInfo& input : planned.inputs)
    planned.shape.inputs.push_back({input.name, input.dtype, input.dims});
  planned.shape.symbols = entry.symbols;
  planned.program = program_for(target, std::move(module), narrowed);
  return planned;
}

}  // namespace anydim
