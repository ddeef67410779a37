// Text of others (names, strings of files, arguments) made fit for a message or a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace anydim::ir {

// Bytes of the character at `at`; 0 where it must not be shown as it is: a control character, an
// invisible or bidirectional format character, a separator of lines or paragraphs, or no
// well-formed UTF-8. Then its first byte is to be written as \xHH.
std::size_t shown_length(std::string_view text, std::size_t at);
void append_escaped(std::string& out, unsigned char byte);  // \xHH

constexpr std::size_t longest_printable = 200;
constexpr std::size_t longest_message = 4096;

// A name within a message: what must not be shown as \xHH, what is past 200 bytes cut and marked by
// `...`.
std::string printable(std::string_view text);
// As printable(), of any length and with its line ends.
std::string printable_lines(std::string_view text);
// A whole message: its lines, cut past 4096 bytes with a mark that says how much is missing.
std::string printable_message(std::string_view text);

}  // namespace anydim::ir
