// The text of placed kernels read back.
#pragma once

#include <string>
#include <string_view>

#include "ir/loops/placed_kernel.h"

namespace anydim::ir {

// What to_string(PlacedKernel) writes, as parse_loop_form() (ir/loops/loop_form_parse.h) does for
// loop forms; verified (ir/loops/verify_placed_kernel.h).
PlacedKernel parse_kernel(std::string_view text, const std::string& source_name = "text");

// One after the other, each behind its region's name ("kernel @gather_0: map ..."), read so and
// printed again.
std::string reread_kernels(std::string_view text, const std::string& source_name = "text");

}  // namespace anydim::ir
