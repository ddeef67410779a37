// Names and strings as the text form writes them: bare where they can be, otherwise quoted so that
// any bytes round-trip.
#pragma once

#include <string>
#include <string_view>

namespace anydim::ir {

// [A-Za-z_][A-Za-z0-9_.]*: a symbol that stands bare in a dim.
bool is_plain_symbol(std::string_view name);
// [A-Za-z0-9_.]+: a name that stands bare behind % or @.
bool is_plain_name(std::string_view name);

// In double quotes, with \" \\ \n \t \r and \xHH for the bytes of what must not be shown
// (ir/printable.h).
std::string quote(std::string_view text);

std::string symbol_text(std::string_view name);  // n, or "past length"
std::string value_text(std::string_view name);   // %y, or %"/bert/Add_1"
std::string global_text(std::string_view name);  // @main

}  // namespace anydim::ir
