// Operands of products in 16-bit floats or in bytes.
#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Where options.precision is bf16 or f16, every f32 matmul and attention reads its matrices rounded
// to that dtype: a constant is converted here, once; any other operand is cast at its source, above
// the views between, so that what computes it can store it narrow. The products themselves are
// written over operands widened to f32 again, which is exact: sums, softmax and everything else
// stay f32. Where it is i8, matrices of attention and of the products that its queries and keys are
// made of are bf16, and other products with weights are of bytes (passes/quantise_products.h).
// Nothing is done for f32. Types must be inferred.
void lower_precision(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
