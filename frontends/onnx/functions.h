// Functions that a model defines of its own.
#pragma once

#include "frontends/onnx/operators.h"

namespace onnx {
class ModelProto;
}

namespace anydim::frontends {

// Replaces every node that calls one of the model's functions by the function's body, again and
// again until none is left; names of what lies inside are made up, attributes are put in where the
// body refers to them, those that the call leaves out as the function has them by default. Nodes of
// a body that is of another opset than the model get their domain from `opsets`. Throws
// Error{Malformed} where a function calls itself or a call doesn't fit it, Error{Unsupported} where
// a function's opset is not supported, or all of it would grow beyond 100,000 nodes or 1 GiB, which
// is counted before anything is placed.
void inline_functions(onnx::ModelProto& model, Opsets& opsets);

}  // namespace anydim::frontends
