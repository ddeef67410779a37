// What the cost models say, for fitting their constants: nothing is compiled or run.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "api/compile.h"
#include "ir/backend.h"

namespace anydim::campaign {

// `backend`, the code generator for CUDA, with other constants of its cost models: {NAME: value}
// (codegen_cuda/cost_constants.def). Throws Error{Malformed}.
std::shared_ptr<const ir::Backend> with_constants(const ir::Backend& backend,
                                                  const nlohmann::json& constants);
// {NAME: value}
nlohmann::ordered_json constants_of(const ir::Backend& backend);

// A product with a bias, [m, k] * [k, n], with m open: what schedules and estimates are asked
// about.
ir::Module product_of(const nlohmann::json& wanted);
// Microseconds of each of "products" [{"n", "k", "m", "schedule"}, ..]: such a product, or with
// "text" in place of "n" and "k" a program of one kernel, whose keys are "keys" (default: "m"
// alone).
nlohmann::ordered_json estimates(const CompileTarget& target, const CompileOptions& options,
                                 const nlohmann::json& wanted);

}  // namespace anydim::campaign
