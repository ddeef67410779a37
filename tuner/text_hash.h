// Short names for long texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/hash.h"

namespace anydim::tuner {

// 16 hexadecimal digits (FNV-1a, 64 bits), the same on every machine.
inline std::string text_hash(std::string_view text) {
  std::uint64_t hash = ir::fnv1a(text);
  std::string digits(16, '0');
  for (std::size_t i = digits.size(); i-- > 0; hash >>= 4)
    digits[i] = "0123456789abcdef"[hash & 15];
  return digits;
}

}  // namespace anydim::tuner
