// The text form read back. docs/text-form.md has the grammar.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/module.h"
#include "ir/text/tensor_text.h"

namespace anydim::ir {

struct ParseOptions {
  std::string source_name = "text";  // of the file, for messages
  FileResolver files;                // resolves @file(...); empty: such references are refused
};

// parse(print(m)) equals m up to the numbering of values, and print(parse(print(m))) is print(m)
// byte for byte. Regions come out sealed. Every `?` in a type opens a fresh unbacked symbol. Throws
// Error{Malformed}: "NAME:LINE:COLUMN: what was expected and found", the line, and a caret under
// the place.
Module parse(std::string_view text, const ParseOptions& options = {});

}  // namespace anydim::ir
