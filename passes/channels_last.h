#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Lays what convolutions compute in memory with the channels innermost, as [N, places..., C] where
// the model says [N, C, places...]: a product with a constant on the left, over windows or over
// what is laid so, becomes one with that constant on the right, whose left operand's rows are read
// where they lie; groups of channels that are laid so are products side by side. The layout goes on
// through elementwise ops, windows, padding, slices, splits, concatenations, resampling, reductions
// and reshapes that keep channels apart, also where some of them become places (phases of
// transposed convolutions); what needs the model's order reads it through a transpose, which never
// exists in memory. A convolution keeps its results in the model's order where something other than
// these and the model's results would read them so, or where what it reads lies in that order and
// only results come of it. A model's own transposes from channels last (ConvNeXt) are layouts too
// where there are windows. Types must be inferred; constants computed.
void channels_last(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
