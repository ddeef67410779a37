// What the cost models count with that no data sheet says (cost_constants.def).
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace anydim::codegen_cuda {

struct CostConstants {
#define ANYDIM_COST(name, value, what) double name = value;
#include "codegen_cuda/cost_constants.def"
#undef ANYDIM_COST
  bool operator==(const CostConstants&) const = default;
};

// By name, in the table's order.
std::vector<std::pair<std::string_view, double>> list(const CostConstants& constants);
// Throws Error{Malformed} for a name that the table lacks and for what is not positive.
void set(CostConstants& constants, std::string_view name, double value);

}  // namespace anydim::codegen_cuda
