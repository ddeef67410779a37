// A measuring process: what the tuner starts, and starts again where a candidate ends it.
#pragma once

#include <functional>

#include "api/compile.h"
#include "tuner/tuning_cases.h"

namespace anydim {

// Compiles the model as the tuner does, for a target of `make`, with the inputs of its calls: read
// where they were recorded, else made up.
tuner::PreparedModel prepare_for_tuning(
    const tuner::PrepareCase& told,
    const std::function<CompileTarget(const CompileOptions&)>& make = make_target);

// A measuring process, from its standard input to its standard output.
void serve_tuning(const std::function<CompileTarget(const CompileOptions&)>& make = make_target);

}  // namespace anydim
