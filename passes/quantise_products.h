// Products of f32 with weights as products of bytes.
#pragma once

#include <set>

#include "ir/module.h"

namespace anydim::passes {

// The results of matmuls that queries and keys of an attention are made of, through views and
// elementwise ops. Softmax magnifies their errors: on a sentence encoder they cost as much as all
// other products together, for a quarter of the work.
std::set<ir::ValueId> products_of_scores(const ir::Function& function);

// Every f32 matmul with a constant matrix that is not small: the matrix in i8, a scale for each
// column (its largest magnitude is 127), converted here, once; rows of the other operand in u8, a
// scale and a zero point for each row from the range of its elements and 0, found as the program
// runs. Rows that are windows of an image, as a convolution's, have those of the whole image: its
// elements are in many windows, and are converted once. A row's result depends on that row, or that
// image, alone. Those of `kept` are left as they are. Sums are exact in i32 (the terms of zero
// points as in passes/separate_zero_points.cpp); everything else stays as it is. (Dettmers et al.
// 2022, "LLM.int8()", calls this vector-wise quantisation.) True where anything was done; new
// values have no types then.
bool quantise_products(ir::Function& function, const std::set<ir::ValueId>& kept);

}  // namespace anydim::passes
