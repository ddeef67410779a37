// Where lanes that a branch parts meet again: the nearest instruction that every way from the
// branch to the end passes.
#pragma once

#include <cstdint>
#include <span>

#include "tests/ptx/program.h"

namespace anydim::ptx {

// Sets `reconverge` of the branches among instructions [first, last) of one function.
void find_meeting_points(std::span<Instruction> instructions, std::int32_t first,
                         std::int32_t last);

}  // namespace anydim::ptx
