// Functions that a model defines of its own.
#pragma once

namespace onnx {
class ModelProto;
}

namespace anydim::frontends {

// Replaces every node that calls one of the model's functions by the function's body, again and
// again until none is left; names of what lies inside are made up, attributes are put in where the
// body refers to them. Throws Error{Malformed} where a function calls itself or a call doesn't fit
// it, Error{Unsupported} where a function is of another opset than the model, or all of it would
// grow beyond 100,000 nodes or 1 GiB, which is counted before anything is placed.
void inline_functions(onnx::ModelProto& model);

}  // namespace anydim::frontends
