// Keeps the results that PipelineOptions::outputs names, in that order; an unknown name is
// Error{CommandLine} listing the model's outputs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/printable.h"
#include "passes/pass.h"

namespace anydim::passes {

void select_outputs(ir::Module& module, PassContext& context) {
  const auto& wanted = context.options.outputs;
  if (wanted.empty()) return;
  ir::Function& main = module.functions.at(0);
  std::vector<ir::ValueId> results;
  for (const std::string& name : wanted) {
    auto found = std::find(main.result_names.begin(), main.result_names.end(), name);
    if (found == main.result_names.end())
      throw Error(ErrorKind::CommandLine, "the model has no output named '{}'; it has {}",
                  ir::printable(name), fmt::join(main.result_names, ", "));
    results.push_back(
        main.body.results[static_cast<std::size_t>(found - main.result_names.begin())]);
  }
  main.body.results = std::move(results);
  main.result_names = wanted;
}

}  // namespace anydim::passes
