// How far results can be trusted.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "ir/ops.h"
#include "ir/tensor.h"
#include "tests/support/random_graph.h"

namespace anydim::tests {

// Where `got` differs from `wanted` by more than the tolerance (floats: absolute, or relative to
// the wanted one; NaN equals NaN); empty where nowhere.
std::string difference(const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& wanted,
                       double tolerance);

// The evaluator's results of a call where every float that an op of @main computes is changed by
// some units in its last place, and products of many are those of two parts. Where these differ
// from the plain ones, the graph magnifies rounding, and no two orders of summation need agree.
// With `only`, results of other ops stay as they are.
std::vector<ir::Tensor> evaluate_perturbed(const RandomGraph& graph, std::size_t call,
                                           const std::set<ir::Op>& only = {});

}  // namespace anydim::tests
