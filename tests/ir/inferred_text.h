// What inference says of a module, line by line, without the module.
#pragma once

#include <string>

#include "ir/module.h"
#include "ir/shapes/infer.h"

namespace anydim::ir::test {

// For each function and region, in their order (after its name, where there are several):
//   n in [0, 6] because "..."          each symbol that inference opened or learned of
//   %y: Tensor[(n), f32]               each binding's results, in order; blocks, their parameters
//                                      first, stand indented behind theirs
//   check WHAT: expected ..., got ...  each precondition that is left to the run
// then `warning: ...`. A binding that is not in `before` as it is in `after` stands there whole,
// and one that is gone as `gone: ...`. Literals (constant, shape, dim) whose type is what they
// spell are left out.
std::string inferred_text(const Module& before, const Module& after,
                          const InferenceResult& inferred);

}  // namespace anydim::ir::test
