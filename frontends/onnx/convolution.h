// What convolutions and transposed ones have in common.
#pragma once

#include <cstdint>

#include "frontends/onnx/window.h"

namespace anydim::frontends {

// The vector's integers are at least 0.
ir::ValueId quotient(Node& node, ir::ValueId vector, std::int64_t divisor);
std::int64_t groups_of(Node& node);
// A bias of one number a channel, added to [N, M, d...]; `count` dims d.
ir::ValueId with_bias(Node& node, ir::ValueId y, ir::ValueId bias, std::size_t count);
// windows.over(x) [N, C, places..., window...] times the weight [M, C / groups, window...].
ir::ValueId convolved(Node& node, const Windows& windows, ir::ValueId moved, ir::ValueId weight,
                      std::int64_t groups);

}  // namespace anydim::frontends
