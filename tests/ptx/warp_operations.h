// Pieces of the warp's operations that other files use.
#pragma once

#include "tests/ptx/execution.h"

namespace anydim::ptx {

// d|p: slot[0] is d (-1 for a sink), slot[1] is p (-1 where absent).
void decode_pair_destination(Decoder& decoder, Type type);

// bar.warp.sync once its members are there.
Outcome execute_warp_barrier(Warp& warp, const Instruction& instruction, LaneMask mask);

}  // namespace anydim::ptx
