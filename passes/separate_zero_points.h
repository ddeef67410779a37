// Products of 8-bit integers less their zero points, as products of the integers themselves and
// terms of the result:
//
//   sum over k of (a - x)(b - y)  =  sum of a b  -  x (sum of (b - y))  -  y (sum of a)
//
// (Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference", section 2.3.) All three sums are in i32, which wraps, so that
// the results are the same integers. The left operand becomes u8 and the right one i8, by an offset
// of 128 where they are not: the pair that processors multiply. Sums over weights are constants.
// Products of integers that are made real first, (a - x) s by (b - y) t, become (sum of (a - x)(b -
// y)) s t, which rounds less.
// A convolution's weight on the left becomes i8 and its image u8, whose borders are the zero point:
// channels_last exchanges the operands, and zeros around (b - y) are y around b.
#pragma once

#include "ir/module.h"
#include "passes/pass.h"

namespace anydim::passes {

// Leaves alone what has zero points that vary along the depth, and operands of rank 1. Types must
// be inferred; they are inferred again.
void separate_zero_points(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
