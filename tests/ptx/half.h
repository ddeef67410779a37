// 16-bit reals: exact widening, and rounding from double to nearest even without rounding twice.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ir/tensor.h"

namespace anydim::ptx {

// The float next to `value` towards zero, made odd when that is not exact, so that a later rounding
// to fewer bits is right.
inline float round_to_odd(double value) {
  const auto rounded = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(rounded) == value || std::isinf(rounded))
    return rounded;
  auto bits = std::bit_cast<std::uint32_t>(rounded);
  if (std::fabs(static_cast<double>(rounded)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

struct HalfFormat {
  static constexpr std::uint16_t not_a_number = 0x7fff;
  static double widen(std::uint16_t bits) { return static_cast<double>(ir::half_to_float(bits)); }
  static std::uint16_t narrow(double value) {
    return std::isnan(value) ? not_a_number : ir::float_to_half(round_to_odd(value));
  }
};

struct BfloatFormat {
  static constexpr std::uint16_t not_a_number = 0x7fff;
  static double widen(std::uint16_t bits) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
  }
  static std::uint16_t narrow(double value) {
    if (std::isnan(value)) return not_a_number;
    const auto bits = std::bit_cast<std::uint32_t>(round_to_odd(value));
    return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

}  // namespace anydim::ptx
