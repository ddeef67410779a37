// What convolutions and transposed ones have in common.
#pragma once

#include <cstdint>

#include "frontends/onnx/window.h"

namespace anydim::frontends {

// The vector's integers are at least 0.
Value quotient(Node& node, Value vector, std::int64_t divisor);
std::int64_t groups_of(Node& node);
// A bias of one number a channel, added to [N, M, d...]; `count` dims d.
Value with_bias(Node& node, Value y, Value bias, std::size_t count);
// windows.over(x) [N, C, places..., window...] times the weight [M, C / groups, window...].
Value convolved(Node& node, const Windows& windows, Value moved, Value weight, std::int64_t groups);

}  // namespace anydim::frontends
