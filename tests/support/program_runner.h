// Runs a program with an arena as planned, each launch by its region's loop form: lowering's
// oracle.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/program.h"
#include "ir/tensor.h"

namespace anydim::tests {

// Results in order. Throws what a runtime would throw as Error{Inputs} (inputs that don't fit,
// checks, indices), and std::logic_error where the program is wrong: a slot read before it is
// filled, a buffer outside its segment or over another one that is still needed, keys that no entry
// of a dispatch table contains, an instruction that reads what nothing wrote. The first result of a
// launch may lie in the place of a parameter at one of the positions `overwritable`, where the
// launch is the last that uses it.
std::vector<ir::Tensor> run_program(const ir::Program& program, std::vector<ir::Tensor> inputs,
                                    std::vector<std::size_t> overwritable = {});

}  // namespace anydim::tests
