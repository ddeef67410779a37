// PTX text cut into its instructions, with their places in the text, so that one can be replaced
// and all else stays as it was.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace anydim::ptx {

struct Statement {
  std::size_t begin = 0;  // of the guard or opcode
  std::size_t end = 0;    // behind the semicolon
  int line = 0;
  std::string guard;                  // "@%p1 " or "@!%p1 ", empty without
  std::string opcode;                 // with all modifiers
  std::vector<std::string> operands;  // as written, without blanks around
};

// The instructions inside function bodies, in order; directives and labels are skipped.
std::vector<Statement> statements_of(std::string_view ptx);

}  // namespace anydim::ptx
