// How large attention's scores can be, whatever a call's inputs: read off the weights where queries and keys are products of layer norms.
#pragma once

#include <optional>

#include "ir/module.h"

namespace anydim::passes {

// A bound of |scale * q_i . k_j| over all rows i and j, in any batch point. A row of layer norm over n elements, whose epsilon is positive, is z * gain + shift with |z| <= sqrt(n)
// (Euclidean), so a head x W + b of it is at most sqrt(n) |diag(gain) W| + |shift W + b|, where |M| is the spectral norm, from above the fourth root of the Frobenius
// norm of (M'M)^2; and |q . k| <= |q| |k|. Nothing where q or k is no such head with constant weights.
std::optional<double> score_bound(const ir::Function& function, const ir::Block& block, const ir::Binding& attention);

}  // namespace anydim::passes
