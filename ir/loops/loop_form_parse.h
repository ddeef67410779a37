// The text of loop forms read back.
#pragma once

#include <string>
#include <string_view>

#include "ir/loops/loop_form.h"

namespace anydim::ir {

// What to_string(LoopForm) writes: parse(to_string(f)) equals f, and prints as it did. The form has
// been verified (ir/loops/verify_loop_form.h). Throws Error{Malformed}: "NAME:LINE:COLUMN: what was
// expected and found" or what the verifier refuses, the line, and a caret under the place.
LoopForm parse_loop_form(std::string_view text, const std::string& source_name = "text");

// One after the other, each behind its region's name ("loops @gather_0: map ..."), read so and
// printed again.
std::string reread_loop_forms(std::string_view text, const std::string& source_name = "text");

}  // namespace anydim::ir
