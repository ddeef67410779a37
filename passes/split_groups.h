#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Groups of channels whose places were joined, as exporters write group normalisation: between a
// reshape from [N, C, places...] to [N, G, P] and one back, elementwise ops and reductions over P
// work on [N, G, C / G, places...], where channels stay a dim of their own that channels_last can
// lay innermost. A reduction is one over places, then one over a group's channels. Only in
// functions that have windows.
void split_groups(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
