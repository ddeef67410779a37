// Checks that a placed kernel is well formed and reads and writes inside its buffers.
#pragma once

#include <optional>

#include "ir/loops/placed_kernel.h"
#include "ir/loops/verify_loop_form.h"

namespace anydim::ir {

// As verify_loop_form(). Each step is used only below where it stands; a load or a store is inside
// its buffer wherever its mask holds, also where the dim that a checked index looks into may be
// empty. Statements are counted from 0 in the order of the text, loops and sections before what is
// in them.
std::optional<LoopFormFlaw> verify_placed_kernel(const PlacedKernel& kernel);

}  // namespace anydim::ir
