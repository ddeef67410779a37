// Running passes over modules given as text, and comparing what they compute before and after.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"
#include "passes/pass.h"

namespace anydim::tests {

// Parses and runs the named passes, verifying after each.
ir::Module after_passes(const std::string& text, const std::vector<std::string>& passes);
// All passes up to and with fuse, for the backend if there is one.
ir::Module fused(ir::Module module, const ir::Backend* backend = nullptr);

// Equal dtypes, dims and integers; reals within `tolerance`, absolute or relative to the expected
// one. Fails the current test otherwise.
void expect_close(const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& expected,
                  double tolerance);

// Deterministic numbers in [-2, 2]; integers in [0, below); bools both ways.
ir::Tensor sample(ir::DType dtype, std::vector<std::int64_t> dims, unsigned seed,
                  std::int64_t below = 4);

}  // namespace anydim::tests
