// Convolutions with fewer multiplications.
#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// A convolution of 3 x 3 windows with steps of 1, any dilations and many channels, which is a
// product over windows with a constant weight, becomes sums of its image's elements (4 x 4 of
// them for each 2 x 2 results), a batch of 16 products with a weight that is made of the constant
// when it is read, and sums of their elements: 16 multiplications a channel pair where there were
// 36. The minimal filtering F(2 x 2, 3 x 3) of Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks" (2016); its results differ in the last places from sums in the model's order,
// and an infinity or NaN is NaN in all results of its tiles, also of windows beside it. Only f32
// that is multiplied as f32, and only where the backend's products are bound by multiplications
// (Backend::saves_multiplications). Types must be inferred; layouts are final.
void winograd(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
