// What a region may know of the constants that a function hands to it.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace anydim::passes {

// Smaller weights are no burden to memory and stay in bytes.
inline constexpr std::int64_t fewest_in_4_bits = 4096;

enum class Stored : std::uint8_t {
  No,
  Yes,      // a `constant` gives it
  In4Bits,  // the same, of i8 and no fewer elements than that, which are from -8 to 7
};
using StoredValues = std::vector<Stored>;  // by value

StoredValues stored_values(const ir::Function& function);

}  // namespace anydim::passes
