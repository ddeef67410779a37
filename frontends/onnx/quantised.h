// Linear quantisation: real = (integer - zero point) * scale.
#pragma once

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// A scale or zero point a channel, in dims that broadcast to x's with the channels at `axis`; one for the whole tensor stays as it is.
ir::ValueId along_axis(Node& node, ir::ValueId parameter, ir::ValueId x, std::int64_t axis);
// round(x / scale) + zero point, at the ends of the integer type where it lies beyond them. Halves go to even.
ir::ValueId quantised(Node& node, ir::ValueId x, ir::ValueId scale, ir::ValueId zero_point, ir::DType to);
// x - zero point (no_value: 0), in i32.
ir::ValueId centred(Node& node, ir::ValueId x, ir::ValueId zero_point);

}  // namespace anydim::frontends
