// Results that are an input with something appended (a decoder's keys and values), written into
// memory that has room for it: nothing of what was there is copied.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"

namespace anydim::passes {

// Result `output` of @main is input `input` with something appended along `axis`.
struct AppendedResult {
  std::size_t input = 0, output = 0, axis = 0;
  std::size_t storage = 0;  // the parameter in whose memory both lie: extent(output) + room on axis
  std::size_t room = 0;     // the parameter (room, 0), which has no elements, only that extent
};

struct AppendingModule {
  ir::Module module;  // types inferred
  // In the order of the results; empty: there are none, and the module is as it was.
  std::vector<AppendedResult> appended;
};

// `module` as run_to_fork() leaves it. A result that concat computes of a parameter and one thing
// more becomes one of a new parameter, its storage: an overwrite in place (ir/ops.def), of which
// everything else reads the part that concat gave. The parameter itself stays and is not read: its
// extents say how much of the storage is there already. Other uses of the parameter than that
// concat leave the result as it is.
AppendingModule append_in_place(ir::Module module);

}  // namespace anydim::passes
