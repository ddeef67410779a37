// How far the kernels of f32 functions are from the exact values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen_cpu/target.h"

namespace anydim::codegen_cpu::testing {

// Units in the last place of the f32 nearest to the exact value; below the smallest normal, in
// denormal steps.
double ulps(float got, double exact);

// The error of `got` at x; `exact` is the exact function's value there.
using ErrorOf = std::function<double(float x, float got, double exact)>;

struct WorstError {
  Level level = Level::Baseline;
  double error = 0;
  float at = 0;
};

// The largest error at each level of the op `name`, called with `more_operands` behind its first,
// over every `stride`-th float of either sign and around every power of two.
std::vector<WorstError> worst_errors(const std::string& name,
                                     const std::function<double(double)>& exact,
                                     const ErrorOf& error, std::int64_t stride,
                                     const std::string& more_operands);

}  // namespace anydim::codegen_cpu::testing
