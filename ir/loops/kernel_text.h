// Kernels as text, for looking and for tests: each step in the outermost loop that it may stand in.
#pragma once

#include <string>

#include "ir/loops/loop_form.h"

namespace anydim::ir {

// The form's loops in order, every program's steps placed among them (ir/loops/step_placer.h), each
// load and check with the condition under which alone it happens. A code generator splits, joins
// and spreads these loops as its schedule says; what stands in which of them stays.
//
//     map
//       for $p0 < n
//         #0: i64 = load 1[$p0]
//         #1: i64 = index(#0) below 30522, check 0
//         for $p1 < 384
//           #2: f32 = load 0[#1, $p1]
//           store 0[$p0, $p1] = #2
std::string kernel_text(const LoopForm& form);

}  // namespace anydim::ir
