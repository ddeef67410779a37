// Runs a loop form point by point, as written: what derive_loop_form() says, without a code
// generator. Reals in f64.
#pragma once

#include <span>
#include <vector>

#include "ir/loops/loop_form.h"
#include "ir/module.h"
#include "ir/tensor.h"

namespace anydim::tests {

// The form as its text gives it back. `inputs` are the region's parameters; its symbols are bound
// from their dims. An index out of range throws Error{Inputs}; an access outside a buffer, an
// element written twice or an element never written throws std::logic_error: the form is wrong
// then.
std::vector<ir::Tensor> run_loop_form(const ir::Region& region, const ir::LoopForm& form,
                                      std::span<const ir::Tensor> inputs,
                                      std::span<const std::int64_t> symbols);

// The module after fusion, region by region: the entry's results.
std::vector<ir::Tensor> run_regions(const ir::Module& module, std::vector<ir::Tensor> inputs);

}  // namespace anydim::tests
