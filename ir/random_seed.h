#pragma once

#include <string_view>

namespace anydim::ir {

// The name of a parameter, an i64 of rank 0, from which a function's random numbers follow. Callers
// that leave it out get others in every call (api/inputs.h).
inline constexpr std::string_view random_seed_parameter = "anydim.random_seed";

}  // namespace anydim::ir
