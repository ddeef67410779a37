// What rows of a map have in common: steps that vary along a row but not from row to row, such as
// the places and shares of a resampled axis. A task computes them once for all of its rows.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

struct SharedSteps {
  std::vector<std::int32_t> kept;  // what rows read of those steps, in the program's order
  std::vector<bool> left_out;      // of each step of the program: no row computes it
};

// Along the last iteration of the part. Empty where steps are cheaper to compute than to read.
SharedSteps shared_steps(const ir::MapPart& part, const ir::SymbolTable& symbols);
// Cycles that a vector of a row needs less by reading them.
double cycles_saved(const ir::MapPart& part, const SharedSteps& shared);

}  // namespace anydim::codegen_cpu
