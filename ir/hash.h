// Hashes that are the same on every run and every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace anydim::ir {

// FNV-1a, 64 bits, of the text that `hash` stands for with `text` behind it.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325u) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// The hash of a sequence whose hash was `hash` and that goes on with `value`.
constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

}  // namespace anydim::ir
