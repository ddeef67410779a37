// How far results can be trusted.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "tests/support/random_graph.h"

namespace anydim::tests {

// Where `got` differs from `wanted` by more than the tolerance (floats: absolute, or relative to the wanted one; NaN equals NaN); empty where nowhere.
std::string difference(const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& wanted, double tolerance);

// The evaluator's results of a call where every float that an op of @main computes is changed by some units in its last place. Where these
// differ from the plain ones, the graph magnifies rounding, and no two orders of summation need agree.
std::vector<ir::Tensor> evaluate_perturbed(const RandomGraph& graph, std::size_t call);

}  // namespace anydim::tests
