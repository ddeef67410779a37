// Text files that the user names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "ir/error.h"

namespace anydim::tuner {

inline constexpr std::uintmax_t longest_text_file = 256 << 20;  // bytes

// The whole content. Throws Error{Malformed} naming the file: missing, no regular file, not to be
// opened, or longer than longest_text_file.
std::string read_text_file(const std::filesystem::path& file);

// What errno says of a file that could not be written.
Error cannot_write(const std::filesystem::path& file);
// Whether there is such a file already. Throws Error{Write} for what is no regular file, such as a
// device or a folder, whose place no file shall take.
bool replaceable_file_exists(const std::filesystem::path& file);
// Written whole under another name beside it and then renamed, so that the file is as it was before
// or complete. Throws Error{Write}.
void write_text_file(const std::filesystem::path& file, std::string_view text);

}  // namespace anydim::tuner
