// The listing of a lowered program read back.
#pragma once

#include <string>
#include <string_view>

#include "ir/program.h"

namespace anydim::ir {

// What to_string(Program) writes: it prints as it did. Elements of large constants are not in the
// text: reading those throws Error{Malformed}. The program has been verified (ir/verify_program.h).
// Throws Error{Malformed}: "NAME:LINE:COLUMN: what was expected and found", the line, and a caret
// under the place.
Program parse_program(std::string_view text, const std::string& source_name = "text");

}  // namespace anydim::ir
