// Sums of convolutions of one image, with fewer convolutions.
#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Networks that are trained with several branches a layer, which a model may still have, add up
// convolutions of one image, and the image itself times a number a channel. A branch whose windows
// lie within another one's, at the same steps, and whose groups of channels lie within its groups,
// is added to that one's weight; so are numbers a channel that a branch or the sum is multiplied by
// or has added (Ding et al., "RepVGG: Making VGG-style ConvNets Great Again", 2021, of whose kinds
// of branches any number may stand in a sum, and dilated and grouped ones). Weights are added in
// f64 and rounded once; results differ in the last places from sums in the model's order. Only f32.
// Types must be inferred; constants computed; channels are outermost.
void sum_convolutions(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
