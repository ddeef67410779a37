// Short names for long texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anydim::tuner {

// 16 hexadecimal digits (FNV-1a, 64 bits), the same on every machine.
inline std::string text_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  std::string digits(16, '0');
  for (std::size_t i = digits.size(); i-- > 0; hash >>= 4)
    digits[i] = "0123456789abcdef"[hash & 15];
  return digits;
}

}  // namespace anydim::tuner
