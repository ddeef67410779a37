// The text of loop forms read back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/loops/loop_form.h"

namespace anydim::ir {

// The loop form of a region.
struct NamedLoopForm {
  std::string name;
  LoopForm form;
};

// What to_string(LoopForm) writes: parse(to_string(f)) equals f, and prints as it did. The form has
// been verified (ir/loops/verify_loop_form.h). Throws Error{Malformed}: "NAME:LINE:COLUMN: what was
// expected and found" or what the verifier refuses, the line, and a caret under the place.
LoopForm parse_loop_form(std::string_view text, const std::string& source_name = "text");

// One after the other, each behind its region's name: "loops @gather_0: map ...".
std::vector<NamedLoopForm> parse_loop_forms(std::string_view text,
                                            const std::string& source_name = "text");
std::string print(const std::vector<NamedLoopForm>& forms);

}  // namespace anydim::ir
