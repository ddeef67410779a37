// The first stage of fusion: products and reductions with what follows them.
#pragma once

#include "passes/fusion_block.h"

namespace anydim::passes {

// Each anchor grows over the chain of uses that derive_loop_form() accepts (bias, GELU, residual;
// layer norm where the backend joins rows to products). A link is one use, or elementwise uses that
// meet again, as in SiLU; where the backend gates products, also equal parts of the columns with
// what they meet in (SwiGLU, a cell of an LSTM). An anchor also takes in a conversion of its end to
// 16 bits, and the largest and smallest element of each of its rows, that other users stand beside.
Groups grow_products(const FusionBlock& block);

}  // namespace anydim::passes
