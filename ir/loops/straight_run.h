// Where an index that folds back or wraps around runs straight: all but the borders of what a pad
// reflects or repeats, the longer side of a roll.
#pragma once

#include <optional>

#include "ir/dims/symbols.h"
#include "ir/loops/loop_form.h"

namespace anydim::ir {

// `program` reads what the part's does at points whose last index lies in [begin, end). The bounds
// are over symbols and the other iterations of the space, and may lie beyond the extent or apart:
// the run is empty where `end` is not above `begin`.
struct StraightRun {
  ScalarProgram program;
  Dim begin, end;
};

// nullopt where no index of a load folds along the last iteration, or none could be straightened.
std::optional<StraightRun> straight_run(const MapPart& part, const SymbolTable& symbols);

}  // namespace anydim::ir
