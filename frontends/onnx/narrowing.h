// Conversions to the element types of ONNX, also to those that have no DType.
#pragma once

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// What Cast makes of numbers or bools. `saturate`: what lies beyond a float's largest number
// becomes that, also infinities, else what the type has for it.
Value converted(Node& node, Value x, const ElementType& to, bool saturate);

// Rounded numbers (f32 or f64) as an integer type, at its ends where they lie beyond them.
Value saturated(Node& node, Value x, const ElementType& to);

}  // namespace anydim::frontends
