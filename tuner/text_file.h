// Text files that the user names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace anydim::tuner {

inline constexpr std::uintmax_t longest_text_file = 256 << 20;  // bytes

// The whole content. Throws Error{Malformed} naming the file: missing, no regular file, not to be opened, or longer than longest_text_file.
std::string read_text_file(const std::filesystem::path& file);

}  // namespace anydim::tuner
