// Convolutions and pooling with inputs and expected outputs, for what ONNX's node tests leave out.
#pragma once

#include <vector>

#include "tests/frontends/value_cases.h"

namespace anydim::frontends {

std::vector<ValueCase> window_cases();

}  // namespace anydim::frontends
