// The text of placed kernels read back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/loops/placed_kernel.h"

namespace anydim::ir {

struct NamedKernel {
  std::string name;
  PlacedKernel kernel;
};

// What to_string(PlacedKernel) writes, as parse_loop_form() (ir/loops/loop_form_parse.h) does for
// loop forms; verified (ir/loops/verify_placed_kernel.h).
PlacedKernel parse_kernel(std::string_view text, const std::string& source_name = "text");

// One after the other, each behind its region's name: "kernel @gather_0: map ...".
std::vector<NamedKernel> parse_kernels(std::string_view text,
                                       const std::string& source_name = "text");
std::string print(const std::vector<NamedKernel>& kernels);

}  // namespace anydim::ir
