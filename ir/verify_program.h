// Checks that a program refers to nothing that it lacks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "ir/program.h"

namespace anydim::ir {

struct ProgramFlaw {
  std::optional<std::size_t> function, instruction;  // where; none: what all functions share
  std::string message;                               // what is wrong, expected, got
};

// The first of: slots, buffers, functions, kernels, stages, constants, inputs, outputs and
// instructions that are not there; launches that give a kernel another number of buffers, extents
// or keys than its region has, or buckets of another number of keys; stages of another number of
// leaves than their shapes; buffers that are too small for what a launch, a fetch, a store of a
// scalar or an output takes of them (ir/verify_buffers.h).
std::optional<ProgramFlaw> verify_program(const Program& program);

}  // namespace anydim::ir
