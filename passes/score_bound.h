// How large attention's scores can be, whatever a call's inputs.
#pragma once

#include "ir/module.h"
#include "passes/element_range.h"

namespace anydim::passes {

// A bound of |scale * q_i . k_j| over all rows i and j, in any batch point, of scores that are no
// NaN; infinity where there is none. |q . k| <= |q| |k|, and rows of q and k are as long as
// `ranges` knows, or by `score_bound` shorter by what weights do: a head x W + b of rows x = z *
// gain + shift with |z| <= n (Euclidean) is at most n |diag(gain) W| + |shift W + b|, where |M| is
// the spectral norm, from above the fourth root of the Frobenius norm of (M'M)^2. `ranges` are
// those of `block`, the body of `function`.
double score_bound_of_rows(const ir::Binding& attention, ElementRanges& ranges);
// The same, sharpened by weights, which takes time.
double score_bound(const ir::Function& function, const ir::Block& block,
                   const ir::Binding& attention, ElementRanges& ranges);

}  // namespace anydim::passes
