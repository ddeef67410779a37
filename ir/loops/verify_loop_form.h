// Checks that a loop form is well formed and reads and writes inside its buffers.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "ir/loops/loop_form.h"

namespace anydim::ir {

struct LoopFormFlaw {
  static constexpr std::size_t header = std::numeric_limits<std::size_t>::max();
  // Which line of the text of the form it is in: `for`, `in order`, `segments`, steps, stores and
  // what else a program gives are counted from 0, in order; `header` for what stands before them.
  std::size_t statement = header;
  std::string message;  // what is wrong, expected, got
  // An access that is not proven to be inside its buffer, and may be: what the model's run checks
  // before a kernel starts (that a new shape has as many elements, say) the form does not know.
  bool unproven = false;
};

// The first of: operands that are no earlier steps; dtypes and numbers of operands that an op does
// not take (ir/ops.def, ir/shapes/shape_rule.h); leaves of dims that are no symbol of the form, no
// loop around the step and no earlier checked index; slots read before they are written;
// parameters, results, steps and checks that are not there or of another kind; an index of a load
// or a store that is not proven to be inside the dims of its buffer wherever the step runs: with
// the ranges of symbols and loops and with the conditions of the Guarded steps around it.
std::optional<LoopFormFlaw> verify_loop_form(const LoopForm& form);

}  // namespace anydim::ir
